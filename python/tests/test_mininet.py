"""Mininet's calls: scripts in its style on labs."""

import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys
import unittest
from functools import partial

from kit import PYTHON, LabCase, nt

from netarium.mininet import Unsupported
from netarium.mininet.cli import CLI
from netarium.mininet.link import TCIntf, TCLink, shape
from netarium.mininet.log import lg
from netarium.mininet.net import Mininet, iperf2
from netarium.mininet.node import (
    Controller,
    CPULimitedHost,
    Host,
    Node,
    OVSKernelSwitch,
    RemoteController,
)
from netarium.mininet.topo import (
    LinearTopo,
    MinimalTopo,
    SingleSwitchReversedTopo,
    SingleSwitchTopo,
    Topo,
)
from netarium.mininet.topolib import TreeNet, TreeTopo
from netarium.mininet.util import (
    custom,
    fmtBps,
    irange,
    pmonitor,
    quietRun,
    waitListening,
)


@contextlib.contextmanager
def printed(level="output"):
    """What is printed at this log level."""
    text = io.StringIO()
    lg.setLogLevel(level)
    with contextlib.redirect_stderr(text):
        yield text
    lg.setLogLevel("output")


def link_of(net, number=0):
    return net.makeLab().data["link"][number]


class Build(unittest.TestCase):
    def test_parameters_of_links_become_keys_of_the_lab(self):
        found = shape(bw=10, delay="5ms", jitter="1 ms", loss=2, max_queue_size=50, use_htb=True)
        self.assertEqual(found["rate"], "10 Mbit/s")
        self.assertEqual(found["delay"], "5 ms")
        jitter = {"distribution": "uniform", "spread": "1 ms", "keep_order": False}
        self.assertEqual(found["jitter"], jitter)
        self.assertEqual((found["loss"], found["queue"]), ("2 %", "50 packets"))
        self.assertEqual(shape(bw=0.5), {"rate": "0.5 Mbit/s", "queue": "1000 packets"})
        # 10 ms at 8 Mbit/s are 10,000 B, and the burst is 15,000 B.
        self.assertEqual(shape(bw=8, use_tbf=True, latency_ms=10)["queue"], "25000 B")
        self.assertEqual(shape(bw=8, enable_ecn=True)["queue"]["ecn"], True)
        self.assertEqual(shape(bw=8, enable_red=True)["queue"]["kind"], "red")
        self.assertEqual(shape(delay="100usecs", loss=0), {"delay": "100 us"})
        with self.assertRaisesRegex(ValueError, 'delay=5: .*delay="5ms"'):
            shape(delay=5)

    def test_hosts_have_addresses_in_order(self):
        net = Mininet()
        s1 = net.addSwitch("s1")
        for name, ip in (("a", None), ("b", "10.0.0.77"), ("c", None)):
            net.addLink(net.addHost(name, **({"ip": ip} if ip else {})), s1)
        self.assertEqual([host.IP() for host in net.hosts], ["10.0.0.1", "10.0.0.77", "10.0.0.3"])
        net["c"].setIP("10.0.0.9", 24)
        addresses = [link["addresses"] for link in net.makeLab().data["link"]]
        self.assertEqual(
            addresses, [{"a": "10.0.0.1/8"}, {"b": "10.0.0.77/8"}, {"c": "10.0.0.9/24"}]
        )
        self.assertEqual(Mininet(ipBase="10.1.2.0/24").addHost("h").IP(), "10.1.2.1")

    def test_ends_of_links_have_names_ports_and_properties(self):
        net = Mininet(link=TCLink)
        h1, s1 = net.addHost("h1"), net.addSwitch("s1")
        link = net.addLink(h1, s1, bw=4, params2={"bw": 8}, intfName1="wan")
        net.addLink("s1", "h1", port1=9)
        self.assertEqual(
            (link_of(net)["up"]["rate"], link_of(net)["down"]["rate"]), ("4 Mbit/s", "8 Mbit/s")
        )
        self.assertEqual([each["name"] for each in net.makeLab().data["link"]], ["h1-s1", "s1-h1"])
        net.addLink(h1, s1)
        self.assertEqual(link_of(net, 2)["name"], "h1-s1.2")
        self.assertEqual(h1.intfNames(), ["wan", "h1-eth1", "h1-eth2"])
        self.assertEqual(s1.intfNames(), ["s1-eth1", "s1-eth9", "s1-eth10"])
        self.assertIs(h1.intf("wan"), link.intf1)
        self.assertEqual(str(link), "wan<->s1-eth1")
        self.assertEqual(len(h1.connectionsTo(s1)), 3)
        self.assertEqual(len(net.linksBetween(s1, h1)), 3)
        net = Mininet(intf=custom(TCIntf, bw=3))
        net.addLink(net.addHost("a"), net.addHost("b"))
        self.assertEqual(link_of(net)["up"]["rate"], "3 Mbit/s")

    def test_topologies(self):
        tree = TreeTopo(depth=2, fanout=3)
        self.assertEqual((len(tree.hosts()), len(tree.switches()), len(tree.links())), (9, 4, 12))
        self.assertEqual(tree.hosts()[-1], "h9")
        self.assertEqual(LinearTopo(3, 2).hosts(), ["h1s1", "h1s2", "h1s3", "h2s1", "h2s2", "h2s3"])
        self.assertEqual(
            LinearTopo(3).links(),
            [
                ("h1", "s1"),
                ("h2", "s2"),
                ("s2", "s1"),
                ("h3", "s3"),
                ("s3", "s2"),
            ],
        )
        self.assertEqual(MinimalTopo().hosts(), ["h1", "h2"])
        net = Mininet(SingleSwitchReversedTopo(3))
        self.assertEqual(net["h1"].intf().peer().name, "s1-eth3")
        self.assertEqual(SingleSwitchTopo(12, lopts={"bw": 2}).hosts()[9], "h10")
        self.assertEqual(list(irange(1, 3)), [1, 2, 3])
        (*_, info) = Mininet, SingleSwitchTopo(1, lopts={"bw": 2}).links(withInfo=True)[0][2]
        self.assertEqual(info["bw"], 2)

    def test_nodes_are_found_by_name(self):
        net = TreeNet(depth=1, fanout=2)
        self.assertEqual(list(net), ["h1", "h2", "s1", "c0"])
        self.assertEqual(net.get("h1", "s1"), [net["h1"], net.getNodeByName("s1")])
        self.assertTrue("h1" in net and "h3" not in net and len(net) == 4)
        self.assertEqual([name for name, _ in net.items()], net.keys())
        self.assertIn("<OVSSwitch s1: s1-eth1:None,s1-eth2:None>", repr(net["s1"]))
        with self.assertRaisesRegex(ValueError, "node h1 already"):
            net.addHost("h1")

    def test_arguments_without_equivalent_are_named(self):
        net = Mininet(controller=None, waitConnected=True, autoSetMacs=True, autoStaticArp=True)
        h1 = net.addHost("h1")
        for what, call in {
            "mac=": lambda: net.addHost("h2", mac="00:00:00:00:00:01"),
            "addr1": lambda: net.addLink(h1, h1, addr1="00:00:00:00:00:01"),
            "inNamespace=": lambda: net.addHost("h2", inNamespace=False),
            "privateDirs": lambda: net.addHost("h2", privateDirs=[("/a", "/b")]),
            "uplink": net.addNAT,
            "xterms": lambda: Mininet(xterms=True),
            "RemoteController": lambda: net.addController("c1", RemoteController),
            "command on h1": lambda: h1.cmd("true"),
            "commands on s1": lambda: net.addSwitch("s1").cmd("true"),
            "not a node of the network": lambda: net.addLink(h1, Node("x")),
        }.items():
            with self.assertRaisesRegex(Unsupported, what):
                call()
        self.assertIsNone(net.addController("c0"))
        with printed("info") as text:
            Mininet().addController("c0", Controller)
        self.assertEqual(text.getvalue().count("\n"), 1)
        self.assertIn("c0 has no effect", text.getvalue())

    def test_utilities(self):
        self.assertEqual(fmtBps(9_560_000), "9.6 Mbits/sec")
        self.assertEqual(fmtBps(9_560_000, "k"), "9560.0 kbits/sec")
        self.assertEqual(quietRun("sh -c 'echo a; echo b >&2'"), "a\nb\n")
        with self.assertRaisesRegex(ValueError, "no log level"):
            lg.setLogLevel("loud")


class LinuxRouter(Node):
    def config(self, **params):
        super().config(**params)
        self.cmd("sysctl net.ipv4.ip_forward=1")

    def terminate(self):
        self.cmd("sysctl net.ipv4.ip_forward=0")
        super().terminate()


class RouterTopo(Topo):
    def build(self, **_opts):
        router = self.addNode("r0", cls=LinuxRouter, ip="192.168.1.1/24")
        for number, (ip, net) in enumerate((("192.168.1.{}", 24), ("172.16.0.{}", 12)), 1):
            switch = self.addSwitch(f"s{number}")
            self.addLink(
                switch, router, intfName2=f"r0-eth{number}", params2={"ip": f"{ip.format(1)}/{net}"}
            )
            host = self.addHost(
                f"h{number}", ip=f"{ip.format(100)}/{net}", defaultRoute=f"via {ip.format(1)}"
            )
            self.addLink(host, switch)


class Wall(LabCase):
    def started(self, topo, **keys):
        net = Mininet(topo, **keys)
        self.addCleanup(net.stop)
        net.start()
        return net

    def test_shell_keeps_its_state(self):
        h1 = self.started(MinimalTopo())["h1"]
        self.assertEqual(h1.cmd("cd /; x='a b'"), "")
        self.assertEqual(h1.cmd("pwd; echo $x; echo err >&2"), "/\na b\nerr\n")
        self.assertEqual(h1.cmd("sh -c 'exit 3'") + h1.cmd("echo $?"), "3\n")
        self.assertEqual(h1.cmd("echo", 1, h1, h1.IP()), "1 h1 10.0.0.1\n")
        self.assertEqual(h1.cmd(["echo", "listed"]), "listed\n")
        self.assertEqual(h1.cmd("echo 'ä"), h1.cmd("echo 'ä"))
        self.assertEqual(h1.cmd("sleep 600 &"), "")
        background = h1.lastPid
        self.assertEqual(h1.cmd("echo $!"), f"{background}\n")
        self.assertIn("sleep 600", h1.cmd("jobs"))
        self.assertEqual(h1.cmd("kill %sleep; wait; jobs"), "")
        self.assertIn("h1-eth0", h1.cmd("ip link show dev h1-eth0"))
        self.assertEqual(h1.cmd("cat"), "")
        h1.cmd("exit")
        self.assertEqual(h1.cmd("echo again"), "again\n")

    def test_commands_in_the_background(self):
        net = self.started(MinimalTopo())
        h1, h2 = net.hosts
        h1.sendCmd("echo first; sh -c 'echo second; exec sleep 600'")
        with self.assertRaisesRegex(RuntimeError, "h1 still runs"):
            h1.cmd("true")
        text = ""
        while "second" not in text:
            text += h1.monitor()
        self.assertEqual(text, "first\nsecond\n")
        h1.sendInt()
        h1.waitOutput()
        self.assertFalse(h1.waiting)
        for host in net.hosts:
            host.sendCmd("echo", host.name)
        self.assertEqual({(h, line) for h, line in net.monitor()}, {(h1, "h1\n"), (h2, "h2\n")})
        self.assertIs(Node.outToNode[h1.stdout.fileno()], h1)
        self.assertTrue(os.path.exists(f"/proc/{h1.pid}"))

    def test_popen(self):
        net = self.started(MinimalTopo())
        h1, h2 = net.hosts
        self.assertEqual(h1.pexec("sh -c 'false'"), ("", "", 1))
        self.assertEqual(h1.pexec(["sh", "-c", "echo a; echo b >&2"]), ("a\n", "b\n", 0))
        self.assertEqual(h1.popen("echo $HOSTNAME", shell=True).communicate()[0], b"h1\n")
        service = h2.popen("sleep 600")
        service.terminate()
        self.assertNotEqual(service.wait(), 0)
        pings = {host: host.popen("ping", "-i0.2", h2.IP()) for host in net.hosts}
        children = list(pings.values())
        lines = []
        for host, line in pmonitor(pings):
            lines.append((host, line))
            if len(lines) == 8:
                for child in children:
                    child.send_signal(signal.SIGINT)
        self.assertEqual({host for host, _ in lines}, {h1, h2})
        self.assertTrue(any("packets transmitted" in line for _, line in lines))
        self.assertEqual([child.wait() for child in children], [0, 0])
        for child in (*children, service):
            child.stdout.close()
            child.stderr.close()
        h2.cmd("python3 -m http.server 80 >/dev/null 2>&1 &")
        self.assertTrue(waitListening(h1, h2.IP(), 80, timeout=30))
        self.assertFalse(waitListening(server=h2, port=81, timeout=0))

    def test_ping(self):
        net = self.started(SingleSwitchTopo(3), link=partial(TCLink, delay="5ms"))
        with printed() as text:
            self.assertEqual(net.pingAll(), 0)
        self.assertIn("h1 -> h2 h3 \n", text.getvalue())
        self.assertIn("*** Results: 0% dropped (6/6 received)", text.getvalue())
        with printed() as text:
            (first, second) = net.pingPairFull()
        self.assertEqual(first[:2], tuple(net.hosts[:2]))
        self.assertEqual(first[2][:2], (1, 1))
        # Two links of 5 ms, there and back.
        self.assertGreaterEqual(first[2][2], 20)
        with printed():
            self.assertEqual(len(net.pingAllFull()), 6)
            net.configLinkStatus("s1", "h3", "down")
            self.assertEqual(net.ping(net.hosts[1:], timeout=1), 100)
            self.assertEqual(net.links[2].status(), "(DOWN DOWN)")
            net.configLinkStatus("h3", "s1", "up")
            self.assertEqual(net.pingAll(), 0)
            net["s1"].stop()
            self.assertEqual(net.ping(net.hosts[:2], timeout=1), 100)
            net["s1"].start(net.controllers)
            self.assertEqual(net.pingPair(), 0)
        with printed() as text:
            net.configLinkStatus("h1", "h2", "down")
            net.configLinkStatus("h1", "h9", "down")
        self.assertEqual(text.getvalue(), "no link between h1 and h2\nh9 is not in the network\n")

    @unittest.skipUnless(shutil.which("iperf3"), "iperf3 is not installed")
    def test_iperf3(self):
        net = self.started(MinimalTopo(), link=partial(TCLink, bw=10))
        with printed() as text:
            server, client = net.iperf(seconds=1)
            udp = net.iperf(net.hosts, l4Type="UDP", udpBw="5M", seconds=1)
        self.assertRegex(server, r"^[5-9]\.\d Mbits/sec$")
        self.assertIn(f"*** Results: {[server, client]}", text.getvalue())
        self.assertEqual((udp[0], len(udp)), ("5M", 3))
        self.assertRegex(udp[2], r"^(4\.[89]|5\.\d) Mbits/sec$")

    @unittest.skipUnless(shutil.which("iperf"), "iperf is not installed")
    def test_iperf2(self):
        net = self.started(MinimalTopo(), link=partial(TCLink, bw=10))
        server, client = iperf2(*net.hosts, 5001, ["-p", "5001", "-t", "1"])
        self.assertLess(abs(server - 7.6e6), 2e6)
        server, client = iperf2(*net.hosts, 5001, ["-p", "5001", "-t", "1", "-u", "-b", "5M"])
        # iperf takes 5M as 5 × 2²⁰.
        self.assertLess(abs(server - 4.3e6), 1.2e6)

    def test_interfaces_change_while_the_lab_is_up(self):
        net = Mininet(autoStaticArp=True)
        h1, h2, s1 = net.addHost("h1"), net.addHost("h2"), net.addSwitch("s1")
        link = net.addLink(h1, s1, cls=TCLink, loss=100)
        net.addLink(h2, s1)
        self.addCleanup(net.stop)
        net.start()
        with printed():
            self.assertEqual(net.ping(timeout=1), 100)
            # Other properties return to their defaults.
            link.intf1.config(delay="15ms")
            link.intf2.config(bw=10)
            times = net.pingPairFull()[0][2]
        self.assertEqual(times[1], 1)
        self.assertGreaterEqual(times[2], 15)
        self.assertEqual(net.lab._changed["link.h1-s1.up.loss"], "0 %")
        h1.setIP("10.0.0.1", 8)
        for what, call in {
            "setIP": lambda: h1.setIP("10.0.0.9"),
            "addition of h3": lambda: net.addHost("h3"),
            "link h1-h2": lambda: net.addLink(h1, h2),
        }.items():
            with self.assertRaisesRegex(Unsupported, f"{what}.*after net.start"):
                call()
        self.assertTrue(h1.intf().isUp())
        s1.intf("s1-eth1").ifconfig("down")
        self.assertFalse(h1.intf().isUp())
        self.assertIn("10.0.0.1", h1.intf().ifconfig())

    def test_router_between_subnets(self):
        net = self.started(RouterTopo())
        self.assertIn(" 0% packet loss", net["h1"].cmd("ping -c1 -W2 172.16.0.100"))
        self.assertIn("via 192.168.1.1", net["h1"].cmd("ip route show default"))
        self.assertIn("r0-eth2", net["r0"].cmd("ip -br link"))
        self.assertIn("172.16.0.1", net["r0"].cmd("hostname; ip -br address"))

    def test_private_folders(self):
        net = Mininet(SingleSwitchTopo(2), host=partial(Host, privateDirs=["/var/log"]))
        self.addCleanup(net.stop)
        net.start()
        h1, h2 = net.hosts
        h1.cmd("echo mine > /var/log/netarium-test")
        self.assertEqual(h1.cmd("cat /var/log/netarium-test"), "mine\n")
        self.assertIn("No such file", h2.cmd("cat /var/log/netarium-test"))

    def test_cpu_limited_hosts(self):
        host = custom(CPULimitedHost, cores=0, cpu=0.1)
        net = Mininet(SingleSwitchTopo(1), host=host)
        self.addCleanup(net.stop)
        with printed("warning") as text:
            net.start()
            h1 = net["h1"]
            self.assertIn("list: 0\n", h1.cmd("taskset -cp $$"))
        if "cpu has no effect" in text.getvalue():
            self.skipTest(text.getvalue())
        group = h1.group
        self.assertIn(
            group.name,
            h1.cmd("cat /proc/self/cgroup")
            + h1.popen(["cat", "/proc/self/cgroup"]).communicate()[0].decode(),
        )
        with printed():
            (share,) = net.runCpuLimitTest(cpu=0.1, duration=1)
        # 10 % of all CPUs, and a period of 100 ms more.
        self.assertLessEqual(share, 0.2)
        net.stop()
        self.assertFalse(group.exists())

    def test_run_is_the_result(self):
        with printed():
            net = TreeNet(depth=1, fanout=2, switch=OVSKernelSwitch, lab={"seed": 7})
            self.assertEqual(net.run(net.pingAll), 0)
        self.assertIsInstance(net.result, nt.Run)
        self.assertEqual(net.result.seed, 7)
        self.assertTrue(net.result.report.is_file())
        self.assertIsNotNone(net.result.verdict)
        net.stop()

    def test_first_command_starts_a_built_network(self):
        net = Mininet(build=False)
        self.addCleanup(net.stop)
        net.addLink(net.addHost("h1"), net.addSwitch("s1"))
        net.build()
        net["s1"].start([])
        self.assertIsNotNone(net.lab)
        self.assertEqual(net["h1"].cmd("hostname"), "h1\n")

    def test_command_line(self):
        net = self.started(MinimalTopo())
        (self.folder / "script").write_text("h1 echo $PWD; hostname # comment\nexit\nnodes\n")
        with printed() as text:
            CLI(net, script="script")
        self.assertRegex(text.getvalue(), r"^/.*\nh1\n$")
        commands = [
            "nodes",
            "net",
            "intfs",
            "dump",
            "links",
            "pingpair",
            "pingpairfull",
            "pingall",
            "pingallfull",
            "link s1 h1 down",
            "links",
            "link s1 h1",
            "link s1 h1 up # again",
            "py h1.IP()",
            "py nothing",
            "sh true",
            "h1 ping -c1 h2",
            "h1",
            "h7 true",
            "source script",
            "xterm h1",
            "iperf h1 h7",
            "",
            "EOF",
        ]
        with printed() as text, contextlib.redirect_stdout(io.StringIO()):
            CLI(net, stdin=io.StringIO("\n".join(commands[:-1]) + "\n"))
        self.assertEqual(text.getvalue().count("usage: link"), 1)
        for expected in (
            "available nodes are: \nc0 h1 h2 s1\n",
            "h1 h1-eth0:s1-eth1\n",
            "s1: s1-eth1,s1-eth2\n",
            "<Host h1: h1-eth0:10.0.0.1> \n",
            "h1-eth0<->s1-eth1 (OK OK)\n",
            "h1-eth0<->s1-eth1 (DOWN DOWN)\n",
            "usage: link NODE NODE up|down\n",
            "10.0.0.1\n",
            "name 'nothing' is not defined\n",
            "PING 10.0.0.2",
            "Please enter a command for node: h1",
            "Unknown command: h7 true\n",
            f"netarium shell {net.lab.id} h1\n",
            "not in the network: h7\n",
        ):
            self.assertIn(expected, text.getvalue())


class Script(LabCase):
    def test_unchanged_script_runs(self):
        folder = self.folder / "scripts"
        folder.mkdir()
        (folder / "other.py").write_text("SIZE = 2\n")
        (folder / "script.py").write_text(
            "import sys\n"
            "from mininet.net import Mininet\n"
            "from mininet.topo import SingleSwitchTopo\n"
            "from mininet.util import dumpNodeConnections\n"
            "from mininet.log import setLogLevel\n"
            "from mininet.clean import cleanup\n"
            "from mininet.nodelib import LinuxBridge\n"
            "from other import SIZE\n"
            "if __name__ == '__main__':\n"
            "    setLogLevel('info')\n"
            "    net = Mininet(SingleSwitchTopo(SIZE), switch=LinuxBridge)\n"
            "    net.start()\n"
            "    dumpNodeConnections(net.hosts)\n"
            "    print(sys.argv[1], net['h2'].cmd('hostname'))\n"
        )
        words = [sys.executable, "-B", "-m", "netarium.mininet", "scripts/script.py", "argument"]
        environment = {**os.environ, "PYTHONPATH": str(PYTHON)}
        done = subprocess.run(words, env=environment, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, "argument h2\n\n"), done.stderr)
        self.assertIn("h1 h1-eth0:s1-eth1\n", done.stderr)
        # The end of the script ends the lab.
        self.assertRegex(done.stderr, r"\*\*\* (passed|untrusted): .*/report.html\n$")


if __name__ == "__main__":
    unittest.main()
