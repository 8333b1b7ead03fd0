//go:build linux

package nic

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"busbar/internal/dcbnl"
	"busbar/internal/ethtool"

	"golang.org/x/sys/unix"
)

// TestMain makes the test binary try to change the loopback of the namespaces that it is started in.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == changeLoopback {
		tryToChange()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const changeLoopback = "__change-loopback"

func tryToChange() {
	changes := []dcbnl.Message{dcbnl.AddApp(dcbnl.App{Selector: dcbnl.DSCP, Protocol: 26, Priority: 3}), dcbnl.SetPFC(dcbnl.PFC{Enabled: 8})}
	k := Kernel{}
	fmt.Println(k.ChangeDCB("lo", changes))
	fmt.Println(k.SetPause("lo", ethtool.Pause{Autonegotiate: true}))
	fmt.Println(k.SetPFCStormPrevention("lo", ethtool.StormPreventionAuto))
	fmt.Println(k.ChangeDCB("gone0", changes))
	fmt.Println(k.SetMTU("lo", 9000), k.SetUp("lo", true), k.SetUp("lo", false))
	fmt.Println(k.SetMTU("lo", -1))
	fmt.Println(k.SetUp("gone0", true))
}

// A real kernel refuses in words: the loopback has none of it, and in a user namespace nobody is allowed to.
func TestRefused(t *testing.T) {
	for name, test := range map[string]struct {
		flags uintptr
		want  string
	}{
		"network namespace": {unix.CLONE_NEWNET, `lo: map dscp 26 to priority 3: refused: operation not supported (the driver or the device has no such operation)
setting pause of lo to rx off, tx off, autonegotiated: operation not supported (the driver has none, or it is a virtual function)
setting the PFC storm prevention of lo to 65535 ms: operation not supported (the driver has none, or it is a virtual function)
gone0: map dscp 26 to priority 3: refused: no such network device (it was renamed or removed meanwhile)
<nil> <nil> <nil>
setting the MTU of lo to -1: invalid argument (the driver or firmware takes no such MTU: see maxmtu of ip -d link)
setting gone0 up: no such device (it was renamed or removed meanwhile)
`},
		"user namespace": {unix.CLONE_NEWNET | unix.CLONE_NEWUSER, `lo: map dscp 26 to priority 3: refused: operation not permitted (this needs CAP_NET_ADMIN outside of user namespaces)
setting pause of lo to rx off, tx off, autonegotiated: operation not permitted (this needs CAP_NET_ADMIN)
setting the PFC storm prevention of lo to 65535 ms: operation not permitted (this needs CAP_NET_ADMIN)
gone0: map dscp 26 to priority 3: refused: operation not permitted (this needs CAP_NET_ADMIN outside of user namespaces)
setting the MTU of lo to 9000: operation not permitted (this needs CAP_NET_ADMIN) setting lo up: operation not permitted (this needs CAP_NET_ADMIN) setting lo down: operation not permitted (this needs CAP_NET_ADMIN)
setting the MTU of lo to -1: operation not permitted (this needs CAP_NET_ADMIN)
setting gone0 up: no such device (it was renamed or removed meanwhile)
`},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("/proc/self/exe", changeLoopback)
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: test.flags}
			out, err := cmd.CombinedOutput()
			if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EINVAL) {
				t.Skipf("needs namespaces: %v", err)
			}
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if string(out) != test.want {
				t.Errorf("%s\nwanted\n%s", out, test.want)
			}
		})
	}
}

func TestExplained(t *testing.T) {
	for err, want := range map[error]string{
		unix.EPERM:  "operation not permitted (this needs CAP_NET_ADMIN)",
		unix.ENODEV: "no such device (it was renamed or removed meanwhile)",
		unix.EBUSY:  "device or resource busy",
		nil:         "<nil>",
	} {
		if got := fmt.Sprint(explained(err)); got != want {
			t.Errorf("%q, wanted %q", got, want)
		}
	}
	if err := (ioctl{}).Ioctl(strings.Repeat("x", unix.IFNAMSIZ), make([]byte, 16)); !errors.Is(err, unix.ENODEV) {
		t.Error(err)
	}
}
