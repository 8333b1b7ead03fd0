//go:build e2e

package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"sync"
	"time"
)

// qmp talks to QEMU's monitor (QEMU Machine Protocol): one command at a time.
type qmp struct {
	mu   sync.Mutex
	conn net.Conn
	in   *json.Decoder
}

// newQMP reads the greeting and leaves the negotiation mode.
func newQMP(conn net.Conn) (*qmp, error) {
	q := &qmp{conn: conn, in: json.NewDecoder(conn)}
	var greeting struct{}
	if err := q.in.Decode(&greeting); err != nil {
		return nil, fmt.Errorf("reading QEMU's greeting: %w", err)
	}
	return q, q.command(context.Background(), "qmp_capabilities", nil, nil)
}

// command runs a command and decodes what it returns into result, unless that is nil.
func (q *qmp) command(ctx context.Context, name string, arguments map[string]any, result any) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(time.Minute)
	}
	if err := q.conn.SetDeadline(deadline); err != nil {
		return err
	}
	request := map[string]any{"execute": name}
	if arguments != nil {
		request["arguments"] = arguments
	}
	if err := json.NewEncoder(q.conn).Encode(request); err != nil {
		return fmt.Errorf("QEMU, %s: %w", name, err)
	}
	for {
		var answer struct {
			Event  string          `json:"event"`
			Return json.RawMessage `json:"return"`
			Error  *struct {
				Description string `json:"desc"`
			} `json:"error"`
		}
		if err := q.in.Decode(&answer); err != nil {
			return fmt.Errorf("QEMU, %s: %w", name, err)
		}
		switch {
		case answer.Event != "":
		case answer.Error != nil:
			return fmt.Errorf("QEMU, %s: %s", name, answer.Error.Description)
		case result != nil:
			return json.Unmarshal(answer.Return, result)
		default:
			return nil
		}
	}
}
