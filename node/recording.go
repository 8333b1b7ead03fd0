package node

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// RecordingVersion is the format that WriteRecording writes: "major.minor",
// additive within a major.
const RecordingVersion = "1.0"

// MaxRecording bounds a recording, in bytes; a full HGX node takes well under 1 MiB.
const MaxRecording = 64 << 20

type recordingJSON struct {
	FormatVersion string       `json:"format_version"`
	Command       string       `json:"command,omitempty"` // of a report.Document, which is no recording
	ObservedAt    time.Time    `json:"observed_at"`
	BootID        string       `json:"boot_id,omitempty"`
	Inventory     Inventory    `json:"inventory"`
	Answers       []answerJSON `json:"answers"`
}

type answerJSON struct {
	Kind        string          `json:"kind"`
	Key         string          `json:"key,omitempty"`
	Value       json.RawMessage `json:"value,omitempty"`
	Reason      string          `json:"reason,omitempty"`
	Needs       string          `json:"needs,omitempty"`
	Unsupported bool            `json:"unsupported,omitempty"`
	Source      *Source         `json:"source,omitempty"`
}

// recorded is the answer without its query.
func (a answerJSON) recorded() valueJSON {
	return valueJSON{Value: a.Value, Reason: a.Reason, Needs: a.Needs, Unsupported: a.Unsupported, Source: a.Source}
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
// unknown kinds and fields are accepted and ignored; a newer major, a cut-off or
// otherwise unreadable recording is an error that says so, with the line where it stopped
// and the field. So is one with two answers to a query, with a value that is known and not, or with a PCI function, network
// device or RDMA device that stands there twice. A value that leaves out what it must say, or says what cannot be,
// is unknown.
func ReadRecording(r io.Reader) (Facts, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxRecording+1))
	if err != nil {
		return Facts{}, fmt.Errorf("reading the recording: %w", err)
	}
	return DecodeRecording(data)
}

// DecodeRecording is ReadRecording for a text that is already there. Facts hold no part of it.
func DecodeRecording(data []byte) (Facts, error) { return new(Decoder).Decode(data) }

// Decoder decodes the recordings of many nodes. Equal nodes give many equal answers, which are decoded once and shared: Facts are
// immutable. The zero Decoder is ready, and may be used concurrently.
type Decoder struct {
	mutex   sync.RWMutex
	decoded map[string]Answer // by their texts, which are valid
	size    int               // of these texts, in bytes
}

// maxDecoded is how many bytes of answers a Decoder remembers. When there are more it forgets all: those that differ from node to
// node never come again.
const maxDecoded = 4 << 20

// Decode is DecodeRecording.
func (d *Decoder) Decode(data []byte) (Facts, error) {
	if len(data) > MaxRecording {
		return Facts{}, fmt.Errorf("the recording is larger than %d MiB", MaxRecording>>20)
	}
	in, answers, plain := d.plainRecording(data)
	if !plain {
		var err error
		if in, answers, err = anyRecording(data); err != nil {
			return Facts{}, err
		}
	}
	return in.facts(answers)
}

func (in *recordingJSON) facts(answers []Answer) (Facts, error) {
	observed := in.ObservedAt.UTC()
	if year := observed.Year(); year < 0 || year > 9999 {
		return Facts{}, fmt.Errorf("field observed_at: %s is in year %d in UTC", in.ObservedAt.Format(time.RFC3339), year)
	}
	confine(reflect.ValueOf(&in.Inventory).Elem(), "")
	if err := in.Inventory.twice(); err != nil {
		return Facts{}, err
	}
	in.Inventory.sort()
	return NewFacts(in.Inventory, observed, answers), nil
}

// plainRecording decodes a recording as WriteRecording writes them: its answers, one by one, apart from the rest. It is false for
// every other text, also for one that is no recording.
func (d *Decoder) plainRecording(data []byte) (in recordingJSON, answers []Answer, plain bool) {
	first, end, ok := onlyMember(data, "answers")
	if !ok {
		return in, nil, false
	}
	rest := slices.Concat(data[:first], []byte("[]"), data[end:])
	if json.Unmarshal(rest, &in) != nil || isRecording(rest, in, nil) != nil {
		return in, nil, false
	}
	answered := map[Query]bool{}
	plain = elements(data[first:end], func(text []byte) bool {
		a, err := d.answer(text)
		if err != nil || answered[a.Query] {
			return false
		}
		if a.value != nil {
			answered[a.Query] = true
			answers = append(answers, a)
		}
		return true
	})
	return in, answers, plain
}

// answer decodes an answer, which has no value where its kind is not known.
func (d *Decoder) answer(text []byte) (Answer, error) {
	d.mutex.RLock()
	a, known := d.decoded[string(text)]
	d.mutex.RUnlock()
	if known {
		return a, nil
	}
	in, plain := answerJSON{}, json.Valid(text)
	if plain {
		in, plain = plainAnswer(text)
	}
	if !plain {
		in = answerJSON{}
		if err := json.Unmarshal(text, &in); err != nil {
			return a, err
		}
	}
	if decode, ok := decoders[in.Kind]; ok {
		value, err := decode(in.recorded())
		if err != nil {
			return a, err
		}
		a = Answer{Query{in.Kind, in.Key}, value}
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.size += len(text); d.decoded == nil || d.size > maxDecoded {
		d.decoded, d.size = map[string]Answer{}, len(text)
	}
	d.decoded[string(text)] = a
	return a, nil
}

// anyRecording decodes a recording, or says why data is none.
func anyRecording(data []byte) (in recordingJSON, answers []Answer, err error) {
	wrong := json.Unmarshal(data, &in)
	if err := isRecording(data, in, wrong); err != nil {
		return in, nil, err
	}
	answered := map[Query]int{}
	for i, a := range in.Answers {
		decode, known := decoders[a.Kind]
		if !known {
			continue
		}
		value, err := decode(a.recorded())
		if err != nil {
			return in, nil, explain(data, err, "answers", strconv.Itoa(i))
		}
		q := Query{a.Kind, a.Key}
		if first, ok := answered[q]; ok {
			return in, nil, fmt.Errorf("field answers.%d: %s was answered by answers.%d", i, q, first)
		}
		answered[q] = i
		answers = append(answers, Answer{Query: q, value: value})
	}
	return in, answers, nil
}

// isRecording says why data, which was decoded to in or not, is no recording that this busbar reads. That it is another version's
// comes before what is wrong with it.
func isRecording(data []byte, in recordingJSON, wrong error) error {
	version := struct {
		FormatVersion string `json:"format_version"`
		Command       string `json:"command"`
	}{in.FormatVersion, in.Command}
	if wrong != nil {
		if err := json.Unmarshal(data, &version); err != nil {
			return explain(data, err)
		}
	}
	if version.Command != "" {
		return fmt.Errorf("this is what busbar %s says, no recording; busbar capture makes one", version.Command)
	}
	if err := checkVersion(version.FormatVersion); err != nil {
		return err
	}
	if wrong != nil {
		return explain(data, wrong)
	}
	return nil
}

func checkVersion(v string) error {
	if v == "" {
		return errors.New("this is no busbar recording: it has no format_version")
	}
	major, minor, ok := strings.Cut(v, ".")
	n, err1 := strconv.ParseUint(major, 10, 32)
	_, err2 := strconv.ParseUint(minor, 10, 32)
	if !ok || err1 != nil || err2 != nil {
		return fmt.Errorf("format_version %q is not MAJOR.MINOR", v)
	}
	own, _, _ := strings.Cut(RecordingVersion, ".")
	if m, _ := strconv.ParseUint(own, 10, 32); n > m {
		return fmt.Errorf("the recording has format %s, this busbar reads up to %s.x: use a newer busbar", v, own)
	}
	return nil
}

// explain says in words, with the line, why data is no recording, or why the value at place in it is none.
func explain(data []byte, err error, place ...string) error {
	var syntax *json.SyntaxError
	var wrong *json.UnmarshalTypeError
	switch {
	case len(bytes.TrimSpace(data)) == 0:
		return errors.New("the recording is cut off: it is empty")
	case errors.As(err, &syntax):
		if errors.Is(json.NewDecoder(bytes.NewReader(data)).Decode(new(json.RawMessage)), io.ErrUnexpectedEOF) {
			return fmt.Errorf("line %d: the recording is cut off", lineAt(data, int64(len(data))))
		}
		return fmt.Errorf("line %d: not a recording: %w", lineAt(data, syntax.Offset-1), err)
	case errors.As(err, &wrong):
		if wrong.Field != "" {
			place = append(place, strings.Split(wrong.Field, ".")...)
		}
		f := finder{dec: json.NewDecoder(bytes.NewReader(data)), found: wrong.Value}
		f.dec.UseNumber()
		f.value(place)
		line := lineAt(data, f.dec.InputOffset())
		if len(place) == 0 {
			return fmt.Errorf("line %d: not a recording: found %s, wanted object", line, wrong.Value)
		}
		return fmt.Errorf("line %d: field %s: found %s, wanted %s", line, strings.Join(place, "."), wrong.Value, jsonType(wrong.Type))
	case len(place) > 0:
		return fmt.Errorf("field %s: %w", strings.Join(place, "."), err)
	default:
		return fmt.Errorf("not a recording: %w", err)
	}
}

// finder looks for a value of the wrong type in well-formed JSON. The offset of a
// json.UnmarshalTypeError does not tell, since Values decode themselves.
type finder struct {
	dec   *json.Decoder
	found string // as in json.UnmarshalTypeError
}

// value reads the next value, up to the first of the type that was found below the members
// that place names. Place passes through lists, unless a number in it picks the element.
func (f *finder) value(place []string) bool {
	token, err := f.dec.Token()
	if err != nil {
		return true
	}
	is := "null"
	switch t := token.(type) {
	case string:
		is = "string"
	case bool:
		is = "bool"
	case json.Number:
		is = "number"
		if f.found == "number "+t.String() {
			is = f.found
		}
	case json.Delim:
		is = map[json.Delim]string{'{': "object", '[': "array"}[t]
	}
	if len(place) == 0 && is == f.found {
		return true
	}
	if is != "object" && is != "array" {
		return false
	}
	for i := 0; f.dec.More(); i++ {
		inside, name := place, strconv.Itoa(i)
		if is == "object" {
			key, _ := f.dec.Token()
			name, _ = key.(string)
		}
		picks := len(place) > 0 && (is == "object" || isNumber(place[0]))
		if picks && !strings.EqualFold(name, place[0]) {
			if f.dec.Decode(new(json.RawMessage)) != nil {
				return true
			}
			continue
		}
		if picks {
			inside = place[1:]
		}
		if f.value(inside) {
			return true
		}
	}
	_, err = f.dec.Token()
	return err != nil
}

func isNumber(s string) bool {
	_, err := strconv.Atoi(s)
	return err == nil
}

// jsonType is what JSON calls a Go type.
func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Slice:
		return "array"
	case reflect.Struct, reflect.Map:
		return "object"
	case reflect.Float64:
		return "number"
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return fmt.Sprintf("whole number from 0 to %d", uint64(1)<<t.Bits()-1)
	default:
		return "whole number"
	}
}

// lineAt is the line, from 1, of the byte at offset.
func lineAt(data []byte, offset int64) int {
	return bytes.Count(data[:offset], []byte("\n")) + 1
}

// sort puts lists of a foreign recording into the order that the package promises.
func (inv *Inventory) sort() {
	if list, ok := inv.PCI.Get(); ok {
		slices.SortStableFunc(list, func(a, b PCIFunction) int { return cmp.Compare(a.Address, b.Address) })
	}
	if list, ok := inv.Netdevs.Get(); ok {
		slices.SortStableFunc(list, func(a, b Netdev) int { return cmp.Compare(a.Name, b.Name) })
	}
	if list, ok := inv.RDMA.Get(); ok {
		slices.SortStableFunc(list, func(a, b RDMADevice) int { return cmp.Compare(a.Name, b.Name) })
	}
	if list, ok := inv.Protected.Get(); ok {
		slices.SortStableFunc(list, func(a, b ProtectedNetdev) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.NIC, b.NIC)) })
	}
}

// twice finds a PCI function, network device or RDMA device that a foreign recording lists twice.
func (inv *Inventory) twice() error {
	functions, _ := inv.PCI.Get()
	netdevs, _ := inv.Netdevs.Get()
	devices, _ := inv.RDMA.Get()
	return cmp.Or(
		repeated("pci", functions, func(p PCIFunction) string { return p.Address }),
		repeated("netdevs", netdevs, func(d Netdev) string { return d.Name }),
		repeated("rdma", devices, func(d RDMADevice) string { return d.Name }),
	)
}

func repeated[T any](field string, list []T, name func(T) string) error {
	first := map[string]int{}
	for i, x := range list {
		if j, ok := first[name(x)]; ok {
			return fmt.Errorf("field inventory.%s.value.%d: %s is element %d already", field, i, name(x), j)
		}
		first[name(x)] = i
	}
	return nil
}
