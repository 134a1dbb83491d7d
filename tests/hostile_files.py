"""Small files that make native libraries fail, for tests of the engine and of uploads."""

from __future__ import annotations

import base64
import struct
import zlib

#: Flow records in Parquet whose footer was changed: polars panics while it reads them.
PANICKING_PARQUET = zlib.decompress(
    base64.b85decode(
        "c-oDW%Wm306ov=eAcR=3$c(V$1skkHtrBpW0+mWNKthv{2D`Z^6;fqvoJ&clY!eceQ5JoIuBtpiRP_;}K1G*(f~t$Iy6Ty+aZ|OR"
        "j<Dz4{?Er}EZWp4VuTf}Jj4PR37kMkKybwnU*DhMl$=KiIh*o))Ae8b$EQ7vh(M~OswUA)@z+S4w1=+g9}mtV=~WD238!$X#k2@9"
        "i3yMl&M;c$51NS6@(N01<gDnq7H8~{J@rOVfBpm0{SS=o`4Q$;RNsjV1ELTU4_*LGCrKeG-o5mD9%pq(N4=BO_Y#s7lEhU4wP0Pv"
        "BJ)PTT4>&ik$EQtCKlxWbIBbHe4Ii!l^5>MJP1T{L^usDn?@eB6ei|Ayw=2*zz>>(-eg7YsB6mXvm_tmcn+y|F=ghlk<W2VkorSV"
        "rk~0jB42pbm88rXI{C({KE##T10~l9s3X@R5!57Xb8K+gG&PLv{U@Gv)H^k^pTs4$#$Jt5x(XL9pM!s))4=DUO-eml=etfHv>`tl"
        "vG_Wrhhg0=Y>jp1^x3V+;tUzy8z&$t59s6}fvy&8u-ZG2uLQOp<m);sJ)||}H#b)7=H8fPEcX11!>F>(MXS3ZiE6yRErx$%E$g(;"
        ">qk@Tmw3I-`fPCi^2P~mjak3eU;U0kQOjlddc<oQMeB5}VD49jJipELlOcifw;p&eSu3y`A$Kc)HXgI1fKZdt1J=)G(2sFsof(eZ"
        "?E9~D`V?hfv<H3D^>XuXFa4vz*+TBT=X&tH<+R1(Vj(x*9Uk}XT*;{vw64AEIJQ=DoU&#YA8DnsS*Vy=WyNtcr)2i*inbtk;M2eV"
        "LpvfuZTOS>1sAgV#{"
    )
)


def nested_parquet(depth: int) -> bytes:
    """A Parquet file whose schema nests so deeply, without a row; from some thousand levels on its reader ends by a
    segmentation fault.
    """
    optional, group, leaf = b"\x35\x02", b"\x18\x01a\x15\x02\x00", b"\x15\x04\x25\x02\x18\x01x\x00"
    root = b"\x48\x01r\x15\x02\x00"
    schema = b"\xfc" + _varint(depth + 2) + root + (optional + group) * depth + leaf
    footer = b"\x15\x02\x19" + schema + b"\x16\x00\x19\x0c\x00"
    return b"PAR1" + footer + struct.pack("<I", len(footer)) + b"PAR1"


def _varint(number: int) -> bytes:
    low = bytes([number & 127 | (128 if number > 127 else 0)])
    return low + (_varint(number >> 7) if number > 127 else b"")
