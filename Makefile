# Two commands: `make run` starts Faultline, `make test` proves it. Ctrl-C ends what either started.
.PHONY: run test

# Where a shell forbids byte code, each of the ten processes would compile all modules again.
run:
	@scripts/bootstrap run && exec env -u PYTHONDONTWRITEBYTECODE .venv/bin/python -m triage.serve

test:
	@scripts/bootstrap dev && exec .venv/bin/python -m scripts.check
