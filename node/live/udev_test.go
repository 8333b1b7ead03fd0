package live

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestSettle(t *testing.T) {
	queue := filepath.Join(t.TempDir(), "queue")
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if !settle(ctx, queue) {
		t.Error("waits without a queue")
	}
	if err := os.WriteFile(queue, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(3*settlePause, func() { os.Remove(queue) })
	if !settle(ctx, queue) {
		t.Error("does not see that the queue was emptied")
	}
	if err := os.WriteFile(queue, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 2*settlePause)
	defer cancel()
	if settle(short, queue) {
		t.Error("a queue that stays passes for an empty one")
	}
}
