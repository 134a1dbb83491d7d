"""Voices with Chinese, Japanese and Korean words: ms-swift on PAI-DLC, LLaMA-Factory on MLU, and two platforms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.exams.sealed.third.schedulers import Told
from lab.exams.sealed.third.voices.base import Spoken, python_frames

if TYPE_CHECKING:
    from lab.exams.sealed.common.case import Case


class Swift(Spoken):
    """ms-swift in pods of PAI-DLC: headers of CRI, bars with carriage returns, metrics as dicts of Python."""

    name = "swift_dlc"
    sched = Told("dlc", "dlc/{job}.events", "{t.both} [{level}] ", "dlc{x}")
    names = ("{job}-worker-{i}", "{job}-pytorch-{i}")
    levels = ("DEBUG", "INFO", "WARNING", "ERROR")
    path = "pods/{host}/pytorch.log"
    line = "{u.iso}.{ns}Z stderr F {text}"
    heads = ("[{level}:swift] {text}", "[{level}:swift:{mod}] {text}")
    frames = python_frames("/usr/local/bin/swift", "/usr/local/lib/swift/llm", "training_step")
    quirks = ("W 指标写入 SwanLab 超时，{a} 秒后重试", "I 样本打包率 99.{a}%", "W 第 {b} 条样本超过 max_length，已跳过")
    booted = (
        ("*", "I", "run sh: torchrun node_rank {node} host {host} ip {ip} pid {pid}"),
        ("0", "I", "数据集加载完成，共 {d}1234 条样本"),
        ("*", "I", "NCCL INFO Using network IBext_v10, local rank {local}"),
        ("0", "I", "The SftArguments will be saved in: /mnt/oss/{run}/args.json"),
    )
    stepped = (
        "{{'loss': {loss:.4f}, 'grad_norm': {grad:.4f}, 'learning_rate': {lr:.3e}, 'memory(GiB)': {mem}.2, "
        "'global_step/max_steps': '{n}/{total}', 'train_speed(s/it)': {took:.6f}}}",
    )
    saving = ("Saving model checkpoint to /mnt/oss/{run}/checkpoint-{n}", "检查点 checkpoint-{n} 写入完成")
    evaluating = ("***** 验证开始 *****", "{{'eval_loss': {loss:.4f}, 'eval_runtime': 41.2}}")
    ended = "训练结束，last_model_checkpoint: /mnt/oss/{run}/checkpoint-{n}"

    def speakers(self, c: Case) -> list[int]:
        return [0]

    def progress(self, c: Case, rank: int) -> None:
        told = self.told(c, rank)
        bar = "\rTrain: {pct:3d}%|{fill:<10}| {n}/{total} [{took:.2f}s/it]"
        last = {**told, "n": c.n - 1}
        fill = "█" * (told["pct"] // 10)
        c.raw(rank, bar.format(**last, fill=fill) + bar.format(**told, fill=fill))
        c.raw(rank, self.stepped[0].format(**told))


class Factory(Spoken):
    """LLaMA-Factory on Cambricon MLU under a Swarm of containers."""

    name = "factory_mlu"
    stack = "cncl"
    vendor = "mlu"
    sched = Told("swarm", "swarm-manager.log", 'time="{t.iso}{t.zone}" level={level} msg=')
    most = 24
    names = ("mlu590-{k:03d}", "hanwu-{a:02d}-{b:02d}")
    path = "llamafactory/{host}/worker_{local}.log"
    heads = ("[{level}|{t.both}] llamafactory.{mod}:{no} >> {text}", "[{level}|{mod}.py:{no}] {t.both},{ms} >> {text}")
    frames = python_frames("/workspace/llamafactory-cli", "/workspace/llamafactory/train", "inner_training_loop")
    quirks = ("I Running tokenizer on dataset (num_proc={a})", "W 缓存目录 /data/cache 已使用 {a}%")
    booted = (
        ("*", "I", "Process rank: {rank}, world size: {world}, device: mlu:{local}, host {host} ({ip}), bf16"),
        ("0", "I", "Loading dataset corpus_{d}.jsonl..."),
        ("0", "I", "trainable params: 6,738,{d} || all params: 6,738,{d} || trainable%: 100.0000"),
        ("0", "I", "***** Running training ***** Total optimization steps = {total}, resume step {n}"),
    )
    stepped = (
        "{{'loss': {loss:.4f}, 'learning_rate': {lr:.4e}, 'epoch': {epoch:.2f}, 'step': {n}, 'seconds': {took:.3f}}}",
    )
    saving = (
        "Saving model checkpoint to saves/{run}/full/checkpoint-{n}",
        "tokenizer config file saved, checkpoint-{n}",
    )
    evaluating = ("***** Running Evaluation *****", "eval_loss = {loss:.4f} at step {n}")
    ended = "Training completed at step {n}. Do not forget to share your model :)"


class Kagami(Spoken):
    """A Japanese institute's trainer: lines of RFC 5424 at one collector, under Grid Engine."""

    name = "kagami"
    sched = Told("age", "age/{job}.log", "{t.date} {t.time}  ")
    names = ("qg{k:03d}", "hinoki{a:02d}n{b:02d}")
    levels = ("debug", "info", "warning", "err")
    path = "collector/kagami-{job}.log"
    line = "<134>1 {t.iso}.{us}{t.zone} {host} kagami {pid} r{rank} - {text}"
    heads = ("[{level}] {text}", "{mod}/{level}: {text}")
    frames = python_frames("/home/lab/kagami/bin/train", "/home/lab/kagami/core", "advance")
    quirks = ("I 先読みキュー {a}/64", "W 監視サーバーへの送信に {b} ms かかりました", "D シャード {b} を開きました")
    booted = (
        ("*", "I", "{host} ({ip}) 起動、全 {world} プロセス中の rank {rank}"),
        ("0", "I", "通信群を作成しました (NCCL 2.27.5)"),
        ("0", "I", "パラメーター数 {d}.2 億、反復 {n} から再開"),
    )
    stepped = ("反復 {n}/{total} 損失 {loss:.4f} 勾配ノルム {grad:.3f} 所要 {took:.3f} 秒 {tok:.0f} tok/s",)
    saving = ("チェックポイント {n} の書き込みを開始", "チェックポイント {n} の書き込みを完了")
    evaluating = ("評価を開始します", "評価終了: 損失 {loss:.4f} (反復 {n})")
    ended = "学習が完了しました (反復 {n})"


class Hanbit(Spoken):
    """A Korean company's platform: logfmt from pods under Kueue."""

    name = "hanbit"
    sched = Told("kueue", "kueue-controller.log", "ts={u.iso}.{ms}Z level={level} controller=workload ")
    names = ("{run}-{job}-w-{i}",)
    levels = ("debug", "info", "warn", "error")
    path = "loki/{host}.logfmt"
    heads = (
        'ts={u.iso}.{ms}Z level={level} pod={host} rank={rank} caller={mod}.py:{no} msg="{text}"',
        'time="{t.both}.{ms}" lvl={level} rank={rank} msg="{text}"',
    )
    frames = python_frames("/srv/hanbit/main.py", "/srv/hanbit/trainer", "do_step")
    quirks = ("W 지표 전송 지연 {b}ms", "I 캐시 적중률 {a}%", "D 데이터 큐 {a}/96")
    booted = (
        ("*", "I", "프로세스 초기화 완료 host={host} ip={ip} world={world}"),
        ("0", "I", "모델 생성 완료, 파라미터 {d}억 개"),
        ("0", "I", "스텝 {n}부터 학습 시작"),
    )
    stepped = ("스텝={n} 손실={loss:.4f} 기울기={grad:.3f} 소요={took:.3f}초 처리량={tok:.0f}",)
    saving = ("체크포인트 저장 시작 step={n}", "체크포인트 저장 완료 step={n}")
    evaluating = ("평가 시작", "평가 종료 손실={loss:.4f} 스텝={n}")
    ended = "학습 정상 종료 step={n}"

    def head(self, c: Case, rank: int, level: str, text: str, dt: float) -> str:
        return super().head(c, rank, level, text.replace('"', '\\"'), dt)


VOICES = (Swift(), Factory(), Kagami(), Hanbit())
