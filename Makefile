# Two commands: `make run` starts Faultline, `make test` proves it. Ctrl-C ends what either started.
.PHONY: run test

run:
	@scripts/bootstrap run && exec .venv/bin/python -m triage.serve

test:
	@scripts/bootstrap dev && exec .venv/bin/python -m scripts.check
