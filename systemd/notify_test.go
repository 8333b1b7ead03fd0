package systemd

import (
	"net"
	"path/filepath"
	"testing"
)

func TestNotifyStatus(t *testing.T) {
	if err := NotifyStatus("nobody listens"); err != nil {
		t.Error(err)
	}
	name := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	t.Setenv("NOTIFY_SOCKET", name)
	if err := NotifyStatus("step 1 of 2: load\nREADY=1"); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	n, err := conn.Read(b)
	if got := string(b[:n]); err != nil || got != "STATUS=step 1 of 2: load READY=1" {
		t.Errorf("%q, %v", got, err)
	}
	t.Setenv("NOTIFY_SOCKET", name+"-gone")
	if err := NotifyStatus("x"); err == nil {
		t.Error("a manager that is gone passes for one that listens")
	}
}
