from faultline.main import run

run()
