package systemd

import (
	"fmt"
	"strings"

	"github.com/coreos/go-systemd/v22/daemon"
)

// NotifyStatus tells the service manager that started this process what it is doing
// (sd_notify(3), STATUS=); systemctl status shows it. Without such a manager it does
// nothing.
func NotifyStatus(text string) error {
	// A new line would begin another assignment.
	if _, err := daemon.SdNotify(false, "STATUS="+strings.ReplaceAll(text, "\n", " ")); err != nil {
		return fmt.Errorf("telling systemd the status: %w", err)
	}
	return nil
}
