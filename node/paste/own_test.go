package paste

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"busbar/node"
)

// What busbar wrote is no text about a node, and says so.
func TestOwn(t *testing.T) {
	var recording bytes.Buffer
	if err := node.WriteRecording(&recording, node.NewFacts(node.Inventory{}, time.Unix(0, 0).UTC(), nil)); err != nil {
		t.Fatal(err)
	}
	const report = "{\n  \"format_version\": \"1.0\",\n  \"command\": \"plan\",\n  \"node\": {\n    \"observed_at\": \"2026-02-03T10:00:00Z\"\n  }\n}\n"
	line := strings.ReplaceAll(strings.ReplaceAll(report, "\n", ""), "  ", "") + "\n"
	for text, want := range map[string][]string{
		recording.String(): {recordingKind.name},
		recording.String() + "mlx5_0\nmlx5_1\nmlx5_2\n": {recordingKind.name, "list of RDMA devices"},
		"```\n" + recording.String() + "```\n":          {recordingKind.name},
		recording.String()[:60]:                         {recordingKind.name}, // cut off
		report:                                          {reportKind.name},
		line + line:                                     {reportKind.name, reportKind.name},
		"{\n  \"format_version\": \"1.0\",\n  \"name\": \"x\"\n}\n": {"?"},
		"{\n  \"command\": \"plan\"\n}\n":                           {"?"},
	} {
		f, inputs := pasted(t, [2]string{"x", text})
		if diff := cmp.Diff(want, kindsOf(inputs)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
		if inputs[0].Kind != "" && (!strings.Contains(inputs[0].Unread, "busbar plan --node FILE") || len(f.Queries()) > 0 && len(inputs) == 1) {
			t.Errorf("%q: %+v, facts %v", text, inputs, f.Queries())
		}
	}
}
