"""A daemon as tools start them: double fork, own session, no way to tell it from its parent.

Source for the item's own interpreter.
"""

DAEMON = """
import os, sys, time
pids = os.environ["EXACTHEAD_ARTIFACTS"] + "/pids"
def daemonise(clear_environment=False, then=None):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            with open(pids, "a") as file:
                file.write(f"{os.getpid()}\\n")
            if then:
                then()
            if clear_environment:
                os.execve("/bin/sleep", ["sleep", "600"], {})
            time.sleep(600)
        os._exit(0)
    os.wait()
def wait_for(count):
    while not os.path.exists(pids) or len(open(pids).read().split()) < count:
        time.sleep(0.01)
"""
