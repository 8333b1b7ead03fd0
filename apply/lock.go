//go:build linux

package apply

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	pathrs "github.com/cyphar/filepath-securejoin/pathrs-lite"
	"golang.org/x/sys/unix"

	"busbar/internal/atomicfile"
)

// The lock is an flock(2), which the kernel releases with its process. The file
// beside it only says who holds it.
const (
	lockDir    = "/run/busbar"
	lockName   = "lock"
	holderName = "lock.json"
)

// holder is the content of the file beside the lock.
type holder struct {
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
}

// acquire takes the lock of the node below root, without waiting. In a tree that does not
// run, release leaves nothing of it: what lies in an image's /run is no state.
func acquire(root string, running bool) (release func(), err error) {
	name := filepath.Join(root, lockDir, lockName)
	lock, dir, err := openLock(root)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%w: taking the lock %s: %w; run busbar as root", ErrNeedsRoot, name, err)
	case err != nil:
		return nil, fmt.Errorf("taking the lock %s: %w%s", name, err, lockAdvice(err))
	}
	err = take(lock, dir)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		err = fmt.Errorf("%w%s", ErrLocked, heldBy(dir))
	case err != nil:
		err = fmt.Errorf("taking the lock %s: %w", name, err)
	case !isAt(lock, dir, lockName):
		err = ErrLocked // by the run that has just removed it
	default:
		err = writeHolder(root)
	}
	if err != nil {
		lock.Close()
		dir.Close()
		return nil, err
	}
	return func() {
		// Who holds the lock is told for as long as it is held; the lock alone counts.
		_, _ = atomicfile.Remove(root, lockDir+"/"+holderName)
		if !running {
			_, _ = atomicfile.Remove(root, lockDir+"/"+lockName)
			removeLockDir(root)
		}
		dir.Close()
		lock.Close()
	}, nil
}

// afterlife is how long a dead run's lock may still be held: by a child between fork(2) and
// execve(2), which has the descriptor until then.
const afterlife = 5 * time.Second

// take takes the lock without waiting for a run that lives.
func take(lock, dir *os.File) error {
	for deadline := time.Now().Add(afterlife); ; time.Sleep(10 * time.Millisecond) {
		err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(deadline) {
			return err
		}
		h, known := readHolder(dir)
		if !known || !errors.Is(unix.Kill(h.PID, 0), unix.ESRCH) {
			return err
		}
	}
}

// removeLockDir removes the lock's directory, unless there is something else in it.
func removeLockDir(root string) {
	parent, err := pathrs.OpenInRoot(root, path.Dir(lockDir))
	if err != nil {
		return
	}
	defer parent.Close()
	_ = unix.Unlinkat(int(parent.Fd()), path.Base(lockDir), unix.AT_REMOVEDIR)
}

// lockAdvice says what to do about something else that lies where the lock should.
func lockAdvice(err error) string {
	switch {
	case errors.Is(err, unix.EISDIR), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, unix.EEXIST):
		return "; it is not busbar's: move it away"
	case errors.Is(err, unix.EROFS):
		return "; mount a tmpfs there, or remount it read-write"
	default:
		return ""
	}
}

// isAt reports whether an open file is still the one of that name in dir.
func isAt(f, dir *os.File, name string) bool {
	var open, there unix.Stat_t
	return unix.Fstat(int(f.Fd()), &open) == nil &&
		unix.Fstatat(int(dir.Fd()), name, &there, unix.AT_SYMLINK_NOFOLLOW) == nil &&
		open.Dev == there.Dev && open.Ino == there.Ino
}

func openLock(root string) (lock, dir *os.File, err error) {
	rootDir, err := os.OpenFile(root, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, nil, err
	}
	defer rootDir.Close()
	dir, err = pathrs.MkdirAllHandle(rootDir, lockDir, 0o755)
	if err != nil {
		return nil, nil, fmt.Errorf("making %s in %s: %w", lockDir, root, err)
	}
	// Close-on-exec: an abandoned child must not keep the lock.
	lock, err = openIn(dir, lockName, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW)
	if err != nil {
		dir.Close()
		return nil, nil, err
	}
	return lock, dir, nil
}

func openIn(dir *os.File, name string, flags int) (*os.File, error) {
	fd, err := unix.Openat(int(dir.Fd()), name, flags|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

func writeHolder(root string) error {
	// A number and a time always encode.
	text, _ := json.Marshal(holder{os.Getpid(), time.Now().UTC().Truncate(time.Second)})
	_, err := atomicfile.Write(root, lockDir+"/"+holderName, append(text, '\n'))
	return err
}

// heldBy tells who holds the lock, as far as that is known.
func heldBy(dir *os.File) string {
	h, known := readHolder(dir)
	if !known {
		return ""
	}
	return fmt.Sprintf(": process %d, since %s", h.PID, h.Started.Format(time.RFC3339))
}

func readHolder(dir *os.File) (h holder, known bool) {
	f, err := openIn(dir, holderName, unix.O_RDONLY|unix.O_NOFOLLOW)
	if err != nil {
		return holder{}, false
	}
	defer f.Close()
	var text bytes.Buffer
	if _, err := io.Copy(&text, io.LimitReader(f, 4096)); err != nil || json.Unmarshal(text.Bytes(), &h) != nil {
		return holder{}, false
	}
	return h, h.PID > 0
}
