//go:build e2e

package e2e

import "testing"

// TestForeignFiles: nccl.conf as sites have it: a link, a mount, with lines of theirs in any
// shape; and files that nobody may change.
func TestForeignFiles(t *testing.T) {
	g := scenario(t, "a linked nccl.conf is written where it lies, every byte of others is kept; a mounted or immutable file is told of")
	const theirs, conf = "# site\t\n\n\n#NCCL_IB_TC = 106\nNCCL_SOCKET_IFNAME=enp0s3\n  # no end of line", "/etc/nccl.conf"
	g.profile("nccl {\n  settings = {\n    NCCL_IB_TC = 104\n  }\n}\n")
	g.file("/srv/site/nccl.conf", theirs)
	g.sh("chown nobody:daemon /srv/site/nccl.conf && chmod 640 /srv/site/nccl.conf")

	g.sh("touch " + conf + " && mount --bind /srv/site/nccl.conf " + conf)
	g.busbar(4, "apply", "--yes").step("failed", "write-file:"+conf, "device or resource busy", "something is mounted on the file: change the file at its source")
	holds := func(want string) {
		t.Helper()
		g.file("/root/want", want)
		g.is("", "cmp /srv/site/nccl.conf /root/want 2>&1")
		g.is("nobody daemon 640", "stat -c '%U %G %a' /srv/site/nccl.conf")
	}
	holds(theirs)
	g.sh("umount " + conf + " && ln -sf /srv/site/nccl.conf " + conf)

	g.sh("chattr +i /srv/site/nccl.conf")
	g.busbar(4, "apply", "--yes").step("failed", "write-file:"+conf, "operation not permitted", "look for an immutable flag (lsattr)")
	g.sh("chattr -i /srv/site/nccl.conf")
	holds(theirs)

	g.busbar(0, "apply", "--yes")
	holds("# BEGIN busbar\nNCCL_IB_TC=104\n# END busbar\n" + theirs)
	g.is("/srv/site/nccl.conf", "readlink "+conf)
	g.busbar(0, "apply", "--yes").noStep()
	g.profile(bareNode)
	g.service("slurmd")
	g.busbar(0, "apply", "--yes")
	holds(theirs)
	g.torn()
}
