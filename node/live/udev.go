package live

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"
)

// udevQueue exists while udev has events to handle (systemd, src/libudev/libudev-queue.c,
// udev_queue_get_queue_is_empty).
const udevQueue = "/run/udev/queue"

// settlePause is how often the queue is looked at.
const settlePause = 50 * time.Millisecond

// Settle waits until udev has handled the events of all devices, as udevadm settle does, so that
// the drivers of the devices that are there have been loaded. It reports false when ctx
// ended first. Without udev it does not wait.
func Settle(ctx context.Context) bool {
	return settle(ctx, udevQueue)
}

func settle(ctx context.Context, queue string) bool {
	for {
		if _, err := os.Lstat(queue); errors.Is(err, fs.ErrNotExist) {
			return true
		}
		select {
		case <-time.After(settlePause):
		case <-ctx.Done():
			return false
		}
	}
}
