package id

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/clitest"
	"holdfast/cmd/holdfast/internal/view"
	"holdfast/session"
)

// FuzzIDDecode: "id decode" shows its arguments, or names the argument that is no id. "id encode" makes the same ids
// from the fields that were shown.
func FuzzIDDecode(f *testing.F) {
	f.Add("0x0100000000010000", "table")
	f.Add("ff\n0xffffffffffffffff\n1", "json")
	f.Add("0", "json")
	f.Add("-1\n--\n-o", "xml")
	f.Fuzz(func(t *testing.T, arguments, output string) {
		words := strings.Split(arguments, "\n")
		code, out, errOut := clitest.RunFuzzed(t, append([]string{"id", "decode", "-o", output, "--"}, words...)...)
		valid := output == "table" || output == "json"
		for _, w := range words {
			_, err := session.ParseID(w)
			valid = valid && err == nil
		}
		switch {
		case !valid:
			if code != cli.ExitUsage || errOut == "" || out != "" {
				t.Errorf("%q: exit code %d, %q, %q, want a refusal", words, code, out, errOut)
			}
			return
		case code != cli.ExitDone || errOut != "":
			t.Fatalf("%q: exit code %d, %q", words, code, errOut)
		case output != "json":
			if got := strings.Count(out, "\n"); got != len(words)+1 {
				t.Errorf("%d lines for %d ids:\n%s", got, len(words), out)
			}
			return
		}
		var views []sessionIDView
		if err := json.Unmarshal([]byte(out), &views); err != nil || len(views) != len(words) {
			t.Fatalf("%q: %v, %d views: %s", words, err, len(views), out)
		}
		encodeAgain(t, words, views)
	})
}

// sessionIDView is the JSON of a decoded session id. Scripts read it, so it must not change.
type sessionIDView struct {
	ID      view.ID      `json:"id"`
	Node    session.Node `json:"node"`
	MS      uint64       `json:"ms"`
	Time    time.Time    `json:"time"`
	Counter uint16       `json:"counter"`
}

// encodeAgain encodes the fields that decode showed, and compares the ids.
func encodeAgain(t *testing.T, words []string, views []sessionIDView) {
	t.Helper()
	for i, v := range views[:min(len(views), 4)] {
		want, _ := session.ParseID(words[i])
		if session.ID(v.ID) != want || v.Node != want.Node() || v.MS != want.MS() || v.Counter != want.Counter() {
			t.Errorf("%q is shown as %+v", words[i], v)
		}
		code, out, errOut := clitest.RunFuzzed(t, "id", "encode", "-o", "json", "--node", strconv.Itoa(int(v.Node)),
			"--ms", strconv.FormatUint(v.MS, 10), "--counter", strconv.Itoa(int(v.Counter)))
		if !v.Node.Valid() {
			if code != cli.ExitUsage {
				t.Errorf("an id of node %d was made: %s", v.Node, out)
			}
			continue
		}
		var made []sessionIDView
		if err := json.Unmarshal([]byte(out), &made); err != nil || len(made) != 1 || made[0] != v {
			t.Errorf("encode makes %s (%d, %s) of %+v", out, code, errOut, v)
		}
	}
}

// FuzzIDLayouts: in every layout and form "id decode" shows an id or refuses one of the words. "id encode" prints the
// same for the fields that were shown.
func FuzzIDLayouts(f *testing.F) {
	f.Add("1541815603606036480", "snowflake", "", "", uint8(0))
	f.Add("175928847299117063", "snowflake", "decimal", "1420070400000", uint8(2))
	f.Add("0x10000295bb80000", "zookeeper", "", "", uint8(0))
	f.Add("05K1WLnfyEB", "holdfast", "base62", "", uint8(0))
	f.Add("LygHa16AHYF", "snowflake", "base62", "", uint8(0))
	f.Add("3w5e11264sgsf", "zookeeper", "base36", "", uint8(0))
	f.Add("0x1", "snowflake", "", "2015-01-01T00:00:00.0005Z", uint8(9))
	f.Add("", "twitter", "base64", "yesterday", uint8(1))
	f.Fuzz(func(t *testing.T, word, layout, form, epoch string, rollbackBits uint8) {
		flags := []string{"-o", "json", "--layout=" + layout, "--form=" + form, "--epoch=" + epoch, "--rollback-bits=" +
			strconv.Itoa(int(rollbackBits))}
		code, out, errOut := clitest.RunFuzzed(t, slices.Concat([]string{"id", "decode"}, flags, []string{"--", word})...)
		if code != cli.ExitDone {
			if code != cli.ExitUsage || errOut == "" || out != "" {
				t.Errorf("%q, %q: exit code %d, %q, %q, want a refusal", word, flags, code, out, errOut)
			}
			return
		}
		var shown []map[string]any
		decoder := json.NewDecoder(strings.NewReader(out))
		decoder.UseNumber()
		if err := decoder.Decode(&shown); err != nil || len(shown) != 1 {
			t.Fatalf("%q, %q: %v in %s", word, flags, err, out)
		}
		again := slices.Concat([]string{"id", "encode"}, flags)
		for name, v := range shown[0] {
			if n, ok := v.(json.Number); ok {
				again = append(again, "--"+name, n.String())
			}
		}
		code, made, errOut := clitest.RunFuzzed(t, again...)
		if node, ok := shown[0]["node"].(json.Number); ok && (node == "0" || node == "255") {
			if code != cli.ExitUsage {
				t.Errorf("an id of node %s was made: %s", node, made)
			}
			return
		}
		if code != cli.ExitDone || made != out {
			t.Errorf("encode makes %s (%d, %s) of %s", made, code, errOut, out)
		}
	})
}
