"""Starts a program with sockets that it opened, as a service manager does (sd_listen_fds(3)): SOCKETS PROGRAM ARGUMENT...

SOCKETS is `NAME=KIND:ADDRESS`, separated by commas; KIND is tcp, udp or unix."""

import fcntl
import os
import socket
import sys

FIRST = 3


def opened(kind, address):
    if kind == "unix":
        one = socket.socket(socket.AF_UNIX)
        one.bind(address)
        os.chmod(address, 0o600)
    else:
        host, port = address.rsplit(":", 1)
        one = socket.socket(type=socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR if kind == "tcp" else socket.SO_REUSEPORT, 1)
        one.bind((host, int(port)))
    if kind != "udp":
        one.listen(64)
    return one


def main():
    wanted = [entry.split("=", 1) for entry in sys.argv[1].split(",")]
    sockets = [opened(*where.split(":", 1)) for _, where in wanted]
    # Out of the way of the numbers that they shall have.
    high = [fcntl.fcntl(one.fileno(), fcntl.F_DUPFD_CLOEXEC, FIRST + len(sockets)) for one in sockets]
    for number, descriptor in enumerate(high, FIRST):
        os.dup2(descriptor, number)
    os.environ["LISTEN_PID"] = str(os.getpid())
    os.environ["LISTEN_FDS"] = str(len(high))
    os.environ["LISTEN_FDNAMES"] = ":".join(name for name, _ in wanted)
    os.execv(sys.argv[2], sys.argv[2:])


main()
