package live

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// readEverything, as the test binary's first argument, makes it read this machine and the tree
// that the second argument names.
const readEverything = "__read-everything"

func runReadEverything(root string) {
	for _, opts := range []Options{{SSHConnection: "192.0.2.1 1 192.0.2.2 22"}, {Root: root, Running: true}, {Root: root}} {
		r := New(opts)
		r.Read(context.Background(), r.Inventory(context.Background()), every)
	}
	os.Exit(0)
}

// Reading opens nothing for writing but /dev/null, and changes no name, mode or module.
func TestNothingIsWritten(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed")
	}
	trace := filepath.Join(t.TempDir(), "trace")
	cmd := exec.Command(strace, "-f", "-o", trace, "-e", "trace=%file,%desc,%network,init_module,finit_module,delete_module,kexec_load,reboot,sethostname",
		testBinary(t), readEverything, tree(t, ofedTree(map[string]string{"sys/class/infiniband/mlx5_0/ports/1/link_layer": "Ethernet\n"})))
	if out, err := cmd.CombinedOutput(); err != nil {
		if strings.Contains(string(out), "ptrace") {
			t.Skipf("strace cannot trace here: %s", out)
		}
		t.Fatalf("%v: %s", err, out)
	}
	f, err := os.Open(trace)
	must(t, err)
	defer closeAll(f)
	opened := regexp.MustCompile(`^\d+ +(open|openat|openat2|creat)\(`)
	writing := regexp.MustCompile(`O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND|creat\(`)
	changing := regexp.MustCompile(`^\d+ +(rename|unlink|mkdir|rmdir|link|symlink|mknod|truncate|ftruncate|chmod|fchmod|chown|fchown|lchown|utime|setxattr|fsetxattr|lsetxattr|` +
		`removexattr|mount|umount|pivot_root|swapon|init_module|finit_module|delete_module|kexec_load|reboot|sethostname|fallocate|futimesat|acct|quotactl)(at|at2|2|64)?\(`)
	lines, children := 0, 0
	for s := bufio.NewScanner(f); s.Scan(); lines++ {
		line := s.Text()
		switch {
		case opened.MatchString(line) && writing.MatchString(line) && !strings.Contains(line, `"/dev/null"`),
			changing.MatchString(line), strings.Contains(line, "NETLINK_RDMA"):
			t.Error(line)
		case strings.Contains(line, "execve(") && strings.Contains(line, ChildArgument):
			children++
		}
	}
	if lines < 500 || children < 2 {
		t.Errorf("%d lines, %d children: that is not all", lines, children)
	}
}

func testBinary(t testing.TB) string {
	t.Helper()
	p, err := os.Executable()
	must(t, err)
	return p
}
