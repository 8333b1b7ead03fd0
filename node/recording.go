package node

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// RecordingVersion is the format that WriteRecording writes: "major.minor",
// additive within a major.
const RecordingVersion = "1.0"

// maxRecording bounds a recording; a full HGX node takes well under 1 MiB.
const maxRecording = 64 << 20

type recordingJSON struct {
	FormatVersion string       `json:"format_version"`
	ObservedAt    time.Time    `json:"observed_at"`
	BootID        string       `json:"boot_id,omitempty"`
	Inventory     Inventory    `json:"inventory"`
	Answers       []answerJSON `json:"answers"`
}

type answerJSON struct {
	Kind   string          `json:"kind"`
	Key    string          `json:"key,omitempty"`
	Value  json.RawMessage `json:"value,omitempty"`
	Reason string          `json:"reason,omitempty"`
	Needs  string          `json:"needs,omitempty"`
	Source *Source         `json:"source,omitempty"`
}

// WriteRecording writes facts as a recording, answers sorted by kind and key.
func WriteRecording(w io.Writer, f Facts) error {
	out := recordingJSON{FormatVersion: RecordingVersion, ObservedAt: f.ObservedAt, Inventory: f.Inventory, Answers: []answerJSON{}}
	out.BootID, _ = f.Inventory.BootID.Get()
	for _, q := range f.Queries() {
		raw, err := json.Marshal(f.answers[q])
		if err != nil {
			return fmt.Errorf("recording the answer to %s: %w", q, err)
		}
		a := answerJSON{}
		if err := json.Unmarshal(raw, &a); err != nil {
			return fmt.Errorf("recording the answer to %s: %w", q, err)
		}
		a.Kind, a.Key = q.Kind, q.Key
		out.Answers = append(out.Answers, a)
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	return enc.Encode(out)
}

// ReadRecording reads what WriteRecording wrote. A newer minor version and
// unknown kinds are accepted and ignored; a newer major, a cut-off or otherwise
// unreadable recording is an error that says so, with the line where it stopped.
func ReadRecording(r io.Reader) (Facts, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxRecording+1))
	if err != nil {
		return Facts{}, fmt.Errorf("reading the recording: %w", err)
	}
	if len(data) > maxRecording {
		return Facts{}, fmt.Errorf("the recording is larger than %d MiB", maxRecording>>20)
	}
	var version struct {
		FormatVersion string `json:"format_version"`
	}
	if err := unmarshal(data, &version); err != nil {
		return Facts{}, err
	}
	if err := checkVersion(version.FormatVersion); err != nil {
		return Facts{}, err
	}
	var in recordingJSON
	if err := unmarshal(data, &in); err != nil {
		return Facts{}, err
	}
	answers := make([]Answer, 0, len(in.Answers))
	for _, a := range in.Answers {
		decode, known := decoders[a.Kind]
		if !known {
			continue
		}
		raw, err := json.Marshal(valueJSON{Value: a.Value, Reason: a.Reason, Needs: a.Needs, Source: a.Source})
		if err != nil {
			return Facts{}, fmt.Errorf("the answer to %s: %w", Query{a.Kind, a.Key}, err)
		}
		value, err := decode(raw)
		if err != nil {
			return Facts{}, fmt.Errorf("the answer to %s: %w", Query{a.Kind, a.Key}, err)
		}
		answers = append(answers, Answer{Query: Query{a.Kind, a.Key}, value: value})
	}
	in.Inventory.sort()
	return NewFacts(in.Inventory, in.ObservedAt, answers), nil
}

func checkVersion(v string) error {
	if v == "" {
		return errors.New("this is no busbar recording: it has no format_version")
	}
	major, _, ok := strings.Cut(v, ".")
	n, err := strconv.Atoi(major)
	if !ok || err != nil {
		return fmt.Errorf("format_version %q is not MAJOR.MINOR", v)
	}
	own, _, _ := strings.Cut(RecordingVersion, ".")
	if m, _ := strconv.Atoi(own); n > m {
		return fmt.Errorf("the recording has format %s, this busbar reads up to %s.x: use a newer busbar", v, own)
	}
	return nil
}

// unmarshal adds the line to JSON errors, and says in words that the text was cut off.
func unmarshal(data []byte, into any) error {
	err := json.Unmarshal(data, into)
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &syntax):
		line := lineAt(data, syntax.Offset)
		if syntax.Offset >= int64(len(bytes.TrimRight(data, " \t\r\n"))) {
			return fmt.Errorf("line %d: the recording is cut off", line)
		}
		return fmt.Errorf("line %d: not a recording: %w", line, err)
	case errors.As(err, &kind):
		return fmt.Errorf("line %d: field %s: found a %s", lineAt(data, kind.Offset), kind.Field, kind.Value)
	default:
		return fmt.Errorf("not a recording: %w", err)
	}
}

func lineAt(data []byte, offset int64) int {
	offset = min(max(offset, 0), int64(len(data)))
	return bytes.Count(data[:offset], []byte("\n")) + 1
}

// sort puts lists of a foreign recording into the order that the package promises.
func (inv *Inventory) sort() {
	if list, ok := inv.PCI.Get(); ok {
		slices.SortFunc(list, func(a, b PCIFunction) int { return cmp.Compare(a.Address, b.Address) })
	}
	if list, ok := inv.Netdevs.Get(); ok {
		slices.SortFunc(list, func(a, b Netdev) int { return cmp.Compare(a.Name, b.Name) })
	}
	if list, ok := inv.RDMA.Get(); ok {
		slices.SortFunc(list, func(a, b RDMADevice) int { return cmp.Compare(a.Name, b.Name) })
	}
}
