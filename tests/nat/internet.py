"""The internet of the tests: carry packets between TUN devices, late and with loss if that is wanted.

    python internet.py DEVICE=PREFIX,PREFIX… DEVICE=PREFIX…

A prefix is the first three numbers of an address, `9.0.1`. Each device is made here and may be moved to another namespace. A
packet goes to the device of its destination; one whose source is not of the device that it came from is dropped, as a provider
does. A line of JSON on standard input, `{"delay": 0.02, "loss": 0.01}`, sets the delay of one way in seconds and the share that is
lost; it is answered with `ok`. The program ends with its standard input.

It is used where others take `tc netem`: not every kernel has that.
"""

import fcntl
import json
import os
import random
import select
import struct
import sys
import time
from collections import deque

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
AT_ONCE = 64


def open_device(name):
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22s", name.encode(), IFF_TUN | IFF_NO_PI, b""))
    return device


def main(arguments):
    routes, poll = {}, select.epoll()
    for argument in arguments:
        name, _, prefixes = argument.partition("=")
        device = open_device(name)
        poll.register(device, select.EPOLLIN)
        for prefix in prefixes.split(","):
            routes[bytes(map(int, prefix.split(".")))] = device
    poll.register(0, select.EPOLLIN)
    print("ok", flush=True)
    carry(poll, routes)


def carry(poll, routes):
    delay = loss = 0.0
    under_way = deque()
    while True:
        wait = max(0.0, under_way[0][0] - time.monotonic()) if under_way else -1
        for source, _ in poll.poll(wait):
            if source == 0:
                line = sys.stdin.readline()
                if not line:
                    return
                delay, loss = map(json.loads(line).get, ("delay", "loss"))
                print("ok", flush=True)
                continue
            for packet in read_some(source):
                to = routes.get(packet[16:19])
                if to is None or routes.get(packet[12:15]) != source or (loss and random.random() < loss):
                    continue
                under_way.append((time.monotonic() + delay, to, packet))
        deliver(under_way)


def deliver(under_way):
    now = time.monotonic()
    while under_way and under_way[0][0] <= now:
        _, to, packet = under_way.popleft()
        try:
            os.write(to, packet)
        except OSError:  # the device is down
            continue


def read_some(device):
    for _ in range(AT_ONCE):
        try:
            packet = os.read(device, 2000)
        except OSError:
            return
        if packet[0] >> 4 == 4:
            yield packet


if __name__ == "__main__":
    main(sys.argv[1:])
