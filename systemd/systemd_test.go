package systemd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestJob(t *testing.T) {
	for _, test := range []struct {
		name   string
		result string // empty: the job never ends
		err    error
		want   string
	}{
		{name: "done", result: "done"},
		{name: "failed", result: "failed", want: `starting slurmd.service: the job ended as "failed"`},
		{name: "dependency", result: "dependency", want: `the job ended as "dependency"`},
		{name: "refused", err: errors.New("Unit slurmd.service is masked."), want: "starting slurmd.service: Unit slurmd.service is masked."},
		{name: "endless", want: "starting slurmd.service: the job has not ended: context deadline exceeded"},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			err := job(ctx, "starting", "slurmd.service", func(_ context.Context, name, mode string, ended chan<- string) (int, error) {
				if name != "slurmd.service" || mode != "replace" {
					t.Errorf("%s, %s", name, mode)
				}
				if test.result != "" {
					ended <- test.result
				}
				return 1, test.err
			})
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error %v, wanted %q", err, test.want)
			}
		})
	}
}

// Where systemd runs it answers about a unit that always exists; elsewhere connecting fails at once.
func TestConnect(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c, err := Connect(ctx)
	if !Available() {
		if err == nil || !strings.Contains(err.Error(), "it is not running here") {
			t.Error(err)
		}
		return
	}
	if err != nil {
		t.Skip("systemd runs here but does not let us in:", err)
	}
	defer c.Close()
	u, err := c.Unit(ctx, "basic.target")
	if err != nil || u.Load != "loaded" || u.MainPID != 0 {
		t.Errorf("%+v: %v", u, err)
	}
	u, err = c.Unit(ctx, "busbar-no-such.service")
	if err != nil || u.Load != "not-found" {
		t.Errorf("%+v: %v", u, err)
	}
}
