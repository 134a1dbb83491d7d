"""Voices with French and German words, and one that spans data centres: Rust under OAR, HTCondor, TorchFT on Nomad."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lab.exams.sealed.common.voice import Put
from lab.exams.sealed.third.schedulers import Told
from lab.exams.sealed.third.voices.base import Spoken, python_frames

if TYPE_CHECKING:
    from lab.exams.sealed.common.case import Case


class Moteur(Spoken):
    """A trainer in Rust and C++ over UCX: lines of ``tracing``, French messages, under OAR."""

    name = "moteur"
    stack = "ucx"
    sched = Told("oar", "OAR.{job}.stderr", "[{t.both}] ")
    most = 32
    names = ("gros-{k}", "chifflot-{k}", "abacus{k:02d}")
    levels = ("DEBUG", " INFO", " WARN", "ERROR")
    path = "sorties/rang-{rank:04d}.txt"
    heads = (
        "{u.iso}.{us}Z {level} moteur::{mod}: {text}",
        "{u.iso}.{us}Z {level} pas{{rang={rank} hote={host}}}: moteur::{mod}: {text}",
    )
    frames = python_frames("/home/moteur/py/lance.py", "/home/moteur/py/moteur", "avance")
    booted = (
        ("*", "I", "rang {rank}/{world} prêt sur {host} ({ip}), {per} accélérateurs"),
        ("0", "I", "anneau UCX formé, {count} voisins"),
        ("0", "I", "reprise au pas {n}, graine {d}"),
    )
    stepped = ("pas={n} perte={loss:.4f} norme={grad:.3f} durée={took:.3f}s jetons/s={tok:.0f}",)
    saving = ("sauvegarde du pas {n} commencée", "sauvegarde du pas {n} terminée")
    evaluating = ("évaluation commencée", "évaluation terminée perte={loss:.4f} pas={n}")
    ended = "entraînement terminé au pas {n}"


class Werk(Spoken):
    """A German institute's program: lines of JSON under HTCondor."""

    name = "werk"
    sched = Told("condor", "condor_{job}.log", "{t.date} {t.time} ")
    names = ("kiwi{k:03d}", "rz-gpu-{a}-{b}")
    levels = ("DEBUG", "INFO", "WARNUNG", "FEHLER")
    path = "ausgabe/{host}/rang{rank}.jsonl"
    heads = ("{level}|{mod}|{text}",)
    frames = python_frames("/opt/werk/start.py", "/opt/werk/kern", "schritt_ausführen")
    quirks = ("W Messwerte nicht übertragen, Warteschlange {a}", "I Zwischenspeicher zu {a} % belegt")
    booted = (
        ("*", "I", "Rang {rank} von {world} auf {host} ({ip}) gestartet"),
        ("0", "I", "Modell gebaut, {d} Mio. Parameter, Wiederaufnahme bei Schritt {n}"),
    )
    stepped = ("Schritt {n} Verlust {loss:.4f} Gradient {grad:.3f} Dauer {took:.3f} s, {tok:.0f} Token/s",)
    saving = ("Sicherung bei Schritt {n} beginnt", "Sicherung bei Schritt {n} abgeschlossen")
    evaluating = ("Auswertung beginnt", "Auswertung beendet, Verlust {loss:.4f} bei Schritt {n}")
    ended = "Training nach Schritt {n} beendet"

    def put(self, c: Case, rank: int, text: str, dt: float) -> Put:
        told = self.fields(c, rank, dt)
        level, mod, word = text.split("|", 2) if text.count("|") > 1 else ("INFO", "stderr", text)
        row = {"zeit": f"{told['t'].iso}.{told['ms']}{told['t'].zone}", "stufe": level, "quelle": mod, "rang": rank}
        return self.path.format(**told), json.dumps({**row, "text": word}, ensure_ascii=False)


class Torchft(Spoken):
    """TorchFT with replica groups on Nomad; a lighthouse decides on the quorum."""

    name = "torchft_nomad"
    sched = Told("nomad", "nomad-server.log", "{t.iso}.{ms}{t.zone} [{level}]  nomad.client: ", "{x}")
    names = ("edge-gpu-{k:03d}", "lon2-{a:02d}-{b:02d}")
    path = "alloc/{host}/trainer.stdout.0"
    heads = (
        "{u.iso}.{us}Z {level} torchft::{mod}: [replica_{node}:{rank}] {text}",
        "{t.both},{ms} - {level} - [replica_{node}/{local}] {text}",
    )
    frames = python_frames("/local/train_ft.py", "/local/ft", "train_step", "/venv/lib/python3.12/site-packages")
    quirks = ("I quorum fast path, {a} participants", "I should_commit=True enough_replicas=True errored=None ({b})")
    booted = (
        ("*", "I", "manager for {host} at http://{ip}:29512 store ready, group size {per}"),
        ("0", "I", "lighthouse: quorum of {count} replicas formed, quorum_id={d}"),
        ("0", "I", "starting at step {n} of {total}"),
    )
    stepped = ("step={n} batches_committed={seen} loss={loss:.5f} grad={grad:.3f} elapsed={took:.3f}s",)
    saving = ("writing durable checkpoint step={n}", "durable checkpoint step={n} finished")
    evaluating = ("validation pass begins", "validation loss={loss:.4f} step={n}")
    ended = "all replicas reached step={n}, shutting down the manager"


VOICES = (Moteur(), Werk(), Torchft())
