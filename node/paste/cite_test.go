package paste

import (
	"strings"
	"testing"

	"busbar/node"
)

// Facts have paths of the node, and people look into what they gave.
func TestCite(t *testing.T) {
	var p Paste
	add := func(file, path, text string) {
		t.Helper()
		if err := p.Add(file, path, strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	add("chat.md", "", "hello\n\n$ cat /etc/nccl.conf\nNCCL_DEBUG=INFO\nNCCL_IB_HCA==mlx5_0\n")
	add("sos/etc/default/grub", "/etc/default/grub", "GRUB_CMDLINE_LINUX=\"quiet\"\nGRUB_DEFAULT=0\n")
	add("options.txt", "", "options nvidia NVreg_X=1\n")
	add("a.txt", "/etc/security/limits.conf", "* - memlock unlimited\n")
	add("b.txt", "/etc/security/limits.conf", "* - memlock 64\n")
	add("/proc/cmdline", "/proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/sda\n")
	for in, want := range map[node.Source]string{
		{Path: "/etc/nccl.conf", Line: 2}:              "chat.md:5",
		{Path: "/etc/nccl.conf"}:                       "chat.md:4",
		{Path: "/etc/default/grub", Line: 2}:           "sos/etc/default/grub:2",
		{Path: "/etc/default/grub"}:                    "sos/etc/default/grub",
		{Path: "/etc/modprobe.d/options.txt", Line: 1}: "options.txt:1",
		{Path: "/etc/security/limits.conf", Line: 1}:   "/etc/security/limits.conf:1", // of two, nobody knows which
		{Path: "/sys/bus/pci/devices/0000:00:00.0"}:    "",
		{Path: "/proc/cmdline", Line: 1}:               "/proc/cmdline:1", // somebody gave this one
		{Path: "chat.md", Line: 1}:                     "chat.md:1",
		{Path: "profile.hcl", Line: 7}:                 "profile.hcl:7",
		{Call: "nvidia-smi topo -p2p"}:                 "nvidia-smi topo -p2p",
	} {
		if got := p.Cite(in).String(); got != want {
			t.Errorf("%s is cited as %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{
		"replaces /etc/default/grub:1, and /etc/default/grub: no line": "replaces sos/etc/default/grub:1, and /etc/default/grub: no line",
		"from /etc/nccl.conf:1": "from chat.md:4",
		"/etc/nccl.conf":        "/etc/nccl.conf",
	} {
		if got := p.CiteIn(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

// A sentence does not name a file of the node where a text's content alone says that it is that.
func TestCiteAssumed(t *testing.T) {
	var p Paste
	if err := p.Add("mail.txt", "", strings.NewReader("hello\n\nNCCL_DEBUG=INFO\n")); err != nil {
		t.Fatal(err)
	}
	const in = "/etc/nccl.conf:1 and /etc/nccl.conf, not /etc/nccl.conf.d/x, /etc/nccl.conf: no line, /etc/nccl.conf."
	if got, want := p.CiteIn(in), "mail.txt:3 and mail.txt:3, not /etc/nccl.conf.d/x, mail.txt:3: no line, mail.txt:3."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A process is called what text calls it: nobody gave a unit.
func TestProcess(t *testing.T) {
	const limits = "Limit                     Soft Limit           Hard Limit           Units\nMax locked memory         65536                65536                bytes\n"
	for text, want := range map[string]string{
		limits:                               "the process of x:1",
		"# cat /proc/4711/limits\n" + limits: "process 4711",
		"# cat /proc/$(pidof slurmd)/limits\n" + limits: "slurmd",
		"hello\n\n" + limits:                            "the process of x:3",
	} {
		f, _ := pasted(t, [2]string{"x", text})
		if l, ok := node.ProcLimits.Get(f, want).Get(); !ok || !l.Running {
			t.Errorf("%q: no limits of %q: %v", text, want, f.Queries())
		}
	}
}
