package paste

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/internal/kernlog"
	"busbar/node"
)

const xid79 = "NVRM: Xid (PCI:0000:1b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."

// The kernel's log is known in each form in which tools and loggers have it.
func TestKernelLogForms(t *testing.T) {
	for name, before := range map[string]string{
		"dmesg":                  "[  123.456789] ",
		"dmesg, caller":          "[  123.456789][ T1234] ",
		"dmesg -T":               "[Sun Feb 23 16:24:18 2025] ",
		"dmesg -r":               "<4>[  123.456789] ",
		"dmesg -x":               "kern  :warn  : [  123.456789] ",
		"dmesg -x, time of day":  "kern  :warn  : 2025-01-21T04:41:44,285060+00:00 ",
		"dmesg, time of day":     "2025-01-21T04:41:44,285060+00:00 ",
		"dmesg -t":               "",
		"/dev/kmsg":              "4,1234,123456789,-;",
		"journalctl":             "Sep 24 20:30:43 gpu07 kernel: ",
		"journalctl, monotonic":  "[  123.456789] gpu07 kernel: ",
		"journalctl, ISO":        "2025-01-21T04:41:44+0000 gpu07 kernel: ",
		"syslog, seconds inside": "Sep 24 20:30:43 gpu07 kernel: [  123.456789] ",
		"quoted":                 "> [  123.456789] ",
	} {
		f, inputs := pasted(t, [2]string{"log", before + xid79 + "\n" + before + "nvidia-nvswitch0: open (major=510)\n"})
		if diff := cmp.Diff([]Input{{File: "log", Kind: "kernel log", Line: 1, Lines: 2}}, inputs); diff != "" {
			t.Errorf("%s: inputs (-want +got):\n%s", name, diff)
		}
		log, _ := node.KernelLog.Get(f, "").Get()
		if len(log.Events) != 1 || log.Events[0].Kind != kernlog.Xid || log.Events[0].Code != 79 || log.Events[0].Device != "0000:1b:00.0" || log.Records != 2 || log.Lost.IsKnown() {
			t.Errorf("%s: the log is %+v", name, log)
		}
	}
}

// What others write among the lines of the kernel is not the kernel's.
func TestKernelLogAmongOthers(t *testing.T) {
	f, inputs := pasted(t, [2]string{"syslog", strings.Join([]string{
		"Sep 24 20:30:43 gpu07 kernel: " + xid79,
		"Sep 24 20:30:44 gpu07 agent[12]: NVRM: seen Xid (PCI:0000:2c:00): 79",
		"Sep 24 20:30:44 gpu07 systemd[1]: nvidia-fabricmanager.service: Failed with result 'exit-code'.",
		"Sep 24 20:30:45 gpu07 kernel: mlx5_core 0000:3d:00.0: mlx5_health_try_recover:335: handling bad device here",
	}, "\n")})
	if got := strings.Join(kindsOf(inputs), ", "); got != "kernel log, ?, fabricmanager.log, kernel log" {
		t.Errorf("kinds are %s", got)
	}
	log, _ := node.KernelLog.Get(f, "").Get()
	if len(log.Events) != 2 || log.Events[1].Kind != kernlog.MLX5 || log.Records != 2 {
		t.Errorf("the log is %+v", log)
	}
}

// The same lines in two texts happened once, further ones in a piece of the same text again.
func TestKernelLogTwice(t *testing.T) {
	aer := "[  12.345678] pcieport 0000:00:01.0: AER: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)\n"
	f, _ := pasted(t, [2]string{"dmesg", aer + "\nwords of somebody\n\n" + aer}, [2]string{"journal", strings.Replace(aer, "[  12.345678]", "Sep 24 20:30:43 gpu07 kernel:", 1) + xid79 + "\n"})
	v := node.KernelLog.Get(f, "")
	log, _ := v.Get()
	if len(log.Events) != 2 || log.Events[0].Count != 2 || log.Events[1].Kind != kernlog.Xid || v.Source().Path != "dmesg and 1 more" {
		t.Errorf("the log of %s is %+v", v.Source(), log)
	}
}
