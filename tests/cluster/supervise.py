"""Run one program that must not outlive the process which started it. A script of its own: python -I -S supervise.py.

Usage: supervise.py GRACE_SECONDS PROGRAM [ARGUMENT...]

1. The starter holds the write end of our standard input. When the starter ends, even by SIGKILL, it is closed.
2. At end of file the program gets SIGTERM and, GRACE_SECONDS later, SIGKILL. Zero seconds: SIGKILL at once.
3. If this process is killed, the kernel kills the program (PR_SET_PDEATHSIG). That depends on the *thread* that forked,
   so the main thread forks, which lives as long as the process.
4. SIGTERM, SIGINT and SIGHUP are passed to the program; SIGUSR1 stops it (SIGSTOP), SIGUSR2 continues it (SIGCONT).
   Its exit code becomes ours.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time

FORWARDED: dict[int, signal.Signals] = {
    **{number: number for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)},
    signal.SIGUSR1: signal.SIGSTOP,
    signal.SIGUSR2: signal.SIGCONT,
}
PR_SET_PDEATHSIG = 1  # include/uapi/linux/prctl.h


def main() -> None:
    grace_seconds, argv = float(sys.argv[1]), sys.argv[2:]
    libc = ctypes.CDLL(None)
    # Blocked, and waited for by a thread: a handler would not run while the main thread is about to read.
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)

    def die_with_us() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        for number in FORWARDED:  # under nohup SIGHUP would be ignored, and a shell could not trap it
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)

    program = subprocess.Popen(argv, stdin=subprocess.DEVNULL, preexec_fn=die_with_us)  # noqa: PLW1509 - no thread yet
    for work in (pass_signals_on, exit_with):
        threading.Thread(target=work, args=(program,), daemon=True).start()

    while os.read(sys.stdin.fileno(), 1):
        pass
    if grace_seconds > 0:
        program.terminate()
        time.sleep(grace_seconds)
    program.kill()
    threading.Event().wait()  # until exit_with ends this process


def pass_signals_on(program: "subprocess.Popen[bytes]") -> None:
    while True:
        program.send_signal(FORWARDED[signal.sigwait(FORWARDED)])


def exit_with(program: "subprocess.Popen[bytes]") -> None:
    """Wait for the program and end this process with its exit code (128 + n for signal n, as shells do)."""
    code = program.wait()
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
