//go:build e2e

// Package wire is what the lab and its agent in the guest say to each other: JSON
// values, one a line, over a virtio serial port. The text of a file to write follows its line.
package wire

// Port is the name of the virtio serial port.
const Port = "busbar.lab"

// What a Message from the agent is.
const (
	// Hello opens each start of the agent, unasked: Boot says of which boot.
	Hello = "hello"
	// Reply answers the request of the same ID.
	Reply = "reply"
)

// Request asks the agent to run a program, or to take or give a file.
type Request struct {
	ID int `json:"id"`
	// Argv is a program with its arguments, by its full path or looked for in PATH.
	Argv []string `json:"argv,omitempty"`
	// Env is added to the agent's own, which has PATH and nothing else.
	Env   []string `json:"env,omitempty"`
	Stdin []byte   `json:"stdin,omitempty"`
	// TimeoutMS after which the program is killed; 0 for never.
	TimeoutMS int `json:"timeout_ms,omitempty"`

	// Put is a file to write with Mode, by a rename. Its directories are made. Its text, of Size
	// bytes, follows the request's line as it is: an emulated processor decodes slowly.
	Put  string `json:"put,omitempty"`
	Size int    `json:"size,omitempty"`
	Mode uint32 `json:"mode,omitempty"`
	// Get is a file to read.
	Get string `json:"get,omitempty"`
}

// Message is what the agent says.
type Message struct {
	Kind string `json:"kind"`
	// Boot is the kernel's boot_id, in a Hello.
	Boot string `json:"boot,omitempty"`

	ID     int    `json:"id,omitempty"`
	Code   int    `json:"code"` // exit status; 128 and the signal's number for one that was killed
	Stdout []byte `json:"stdout,omitempty"`
	Stderr []byte `json:"stderr,omitempty"`
	Data   []byte `json:"data,omitempty"`
	// Error says why the program was not run or the file not written or read, or that the
	// program was killed at its timeout.
	Error string `json:"error,omitempty"`
}
