package live

import (
	"errors"

	"golang.org/x/sys/unix"

	"busbar/internal/kernlog"
	"busbar/node"
)

const (
	kmsg = "/dev/kmsg"
	// maxKernelLog bounds the log: LOG_BUF_SHIFT, which sizes its buffer, is 25 at most (init/Kconfig).
	maxKernelLog = 64 << 20
	// maxRecord is the most that one read gives (CONSOLE_EXT_LOG_MAX of include/linux/printk.h).
	maxRecord = 8192
)

// kernelLog reads what the kernel's ring buffer holds, from its oldest record on (Documentation/ABI/testing/dev-kmsg).
func (s *session) kernelLog(string) node.Value[node.KernelLogState] {
	source := node.Source{Path: kmsg}
	text, err := s.readKmsg()
	switch {
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES):
		return node.Unknown[node.KernelLogState]("only root may read the kernel's log here (kernel.dmesg_restrict)", source)
	case err != nil:
		return unknown[node.KernelLogState](err, kmsg)
	}
	return node.Known(node.NewKernelLogState(kernlog.ParseKmsg(string(text)), source), source)
}

func (s *session) readKmsg() ([]byte, error) {
	if !s.machine {
		return s.readBytes(kmsg, maxKernelLog) // a copy
	}
	fd := -1
	err := retry(func() (err error) {
		fd, err = unix.Open(kmsg, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	defer shut(fd)
	return records(s.ctx.Err, func(b []byte) (n int, err error) {
		err = retry(func() error { n, err = unix.Read(fd, b); return err })
		return n, err
	})
}

// records are all that read gives, one after the other. It gives EAGAIN behind the newest, and EPIPE where the kernel wrote
// over the next one meanwhile.
func records(ended func() error, read func([]byte) (int, error)) ([]byte, error) {
	var all []byte
	record := make([]byte, maxRecord)
	for {
		n, err := read(record)
		switch {
		case errors.Is(err, unix.EPIPE):
		case errors.Is(err, unix.EAGAIN) || err == nil && n == 0:
			return all, nil
		case err != nil:
			return nil, err
		case len(all)+n > maxKernelLog:
			return nil, errors.New("larger than 64 MiB")
		default:
			all = append(all, record[:n]...)
		}
		if err := ended(); err != nil {
			return nil, err
		}
	}
}
