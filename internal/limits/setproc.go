package limits

import (
	"fmt"
	"strings"
)

// SetProc returns the text of a /proc/PID/limits with the row of item showing p
// (the layout of proc_pid_limits in fs/proc/base.c). Text without such a row and
// unknown items come back as they are.
func SetProc(text, item string, p Pair) string {
	r, known := find(item)
	if !known {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, r.row+" ") {
			lines[i] = fmt.Sprintf("%-25s %-20s %-20s %-10s", r.row, p.Soft, p.Hard, r.units)
		}
	}
	return strings.Join(lines, "\n")
}
