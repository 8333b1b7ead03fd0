// Package p2p is what moving bytes between GPUs showed: the part that whoever measures,
// judges and shows share, and that is kept in files as a baseline.
package p2p

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Result is one run over all pairs of GPUs.
type Result struct {
	// CUDA is the version of the driver's CUDA API, "13.0"; empty where CUDA did not start.
	CUDA string `json:"cuda_version" range:"0:"`
	// Size of a copy in bytes.
	Size int64 `json:"size_bytes"`
	// GPUs are sorted by address.
	GPUs []GPU `json:"gpus"`
	// Pairs has each ordered pair of GPUs once, sorted by From, then To.
	Pairs []Pair `json:"pairs"`
	// Seconds is how long it took in all, CUDA's start included.
	Seconds float64 `json:"duration_s"`
	// Unknown says why the run ended early; empty where it did not.
	Unknown string `json:"unknown,omitempty"`
}

// GPU is one that CUDA shows.
type GPU struct {
	// Address on the PCI bus, as sysfs writes it.
	Address string `json:"address"`
	// UUID is GPU-... as nvidia-smi -L writes it.
	UUID string `json:"uuid" range:"0:"`
	Name string `json:"name" range:"0:"`
	// Memory in bytes that CUDA can use.
	Memory int64 `json:"memory_bytes"`
	// Free is how many bytes of it were free before buffers were allocated, CUDA's own context deducted.
	Free int64 `json:"free_bytes"`
}

// Pair is what was measured from one GPU to another. What was not measured is nil, and
// Unknown says why.
type Pair struct {
	From string `json:"from"`
	To   string `json:"to"`
	// PeerAccess: either GPU can reach the other's memory.
	PeerAccess *bool `json:"peer_access"`
	// OneWay is the median bandwidth with peer access, the other direction idle, in GB/s (10^9 bytes a second).
	OneWay *float64 `json:"one_way_gb_per_s"`
	// BothWays is the median of the sum of both directions at once, in GB/s.
	BothWays *float64 `json:"both_ways_gb_per_s"`
	// Latency is the median time of a copy of 16 bytes in a row of them, in microseconds.
	Latency *float64 `json:"latency_us"`
	// Staged is the median bandwidth one way with peer access off, through host memory, in GB/s.
	Staged *float64 `json:"peer_access_off_gb_per_s"`
	// Checks are of the last transfer of each kind, in the order in which they were made.
	Checks []Check `json:"checks"`
	// Unknown says why something was not measured; empty where all was.
	Unknown string `json:"unknown,omitempty"`
}

// Check compares every byte of a transfer with what was sent.
type Check struct {
	// Transfer is a Transfer.
	Transfer Transfer `json:"transfer"`
	// Bytes were compared.
	Bytes int64 `json:"bytes"`
	// Wrong is how many of them differ.
	Wrong int64 `json:"wrong_bytes"`
	// FirstWrong is the offset of the first one that differs; nil where none does.
	FirstWrong *int64 `json:"first_wrong_offset"`
}

// Transfer is a kind of transfer.
type Transfer string

// The kinds of transfers.
const (
	Staged   Transfer = "peer access off"
	OneWay   Transfer = "one way"
	BothWays Transfer = "both ways"
)

// maxDocument bounds a document; one of 16 GPUs has about 200 KiB.
const maxDocument = 16 << 20

// Read reads a result out of the document that busbar probe p2p writes as JSON. A newer major
// version, another command's document, one without a result and one that is cut off are errors.
func Read(r io.Reader) (Result, error) {
	var document struct {
		FormatVersion string `json:"format_version"`
		Command       string `json:"command"`
		Error         string `json:"error"`
		Result
	}
	raw, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	switch {
	case err != nil:
		return Result{}, err
	case len(raw) > maxDocument:
		return Result{}, errors.New("is larger than 16 MiB")
	}
	if err := json.Unmarshal(raw, &document); err != nil {
		return Result{}, fmt.Errorf("is no JSON document of busbar probe p2p: %w", err)
	}
	major, _, _ := strings.Cut(document.FormatVersion, ".")
	switch {
	case document.Command != Command:
		return Result{}, fmt.Errorf("is no JSON document of busbar probe p2p: its command is %q", document.Command)
	case major != "1":
		return Result{}, fmt.Errorf("has format_version %q, and this busbar reads 1", document.FormatVersion)
	case document.Error != "":
		return Result{}, fmt.Errorf("has no result: %s", document.Error)
	case document.Size <= 0 || len(document.Pairs) == 0:
		return Result{}, errors.New("has no pair that was measured")
	}
	return document.Result, nil
}

// Command is the command's name in its documents.
const Command = "probe p2p"

// Pair is the one from a GPU to another.
func (r Result) Pair(from, to string) (Pair, bool) {
	for _, p := range r.Pairs {
		if p.From == from && p.To == to {
			return p, true
		}
	}
	return Pair{}, false
}

// Bytes is a number of bytes for people: 512 MiB, 1.5 GiB.
func Bytes(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.3g GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.3g MiB", float64(n)/(1<<20))
	default:
		return fmt.Sprintf("%d bytes", n)
	}
}
