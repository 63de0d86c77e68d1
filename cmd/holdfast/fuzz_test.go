package main

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/fuzz/bound"
)

// FuzzParseToken: parseToken reads a text or refuses it without repeating it, because a token is a secret. A token that
// was read, written and read again is the same.
func FuzzParseToken(f *testing.F) {
	for _, s := range []string{
		tokenText, " " + tokenText + "\n", "", "..", "1.00112233445566778899aabbccddeeff.1",
		"0x1.00112233445566778899AABBCCDDEEFF.18446744073709551615",
		"1.00112233445566778899aabbccddeef.1", "1.00112233445566778899aabbccddeeff.0",
		"1.00112233445566778899aabbccddeeff.1.1",
		"1.00112233445566778899aabbccddeeff.1.local", tokenText + ".local.", strings.Repeat(".", 4096),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var token session.Token
		var err error
		bound.Cost{PerByte: 64, Fixed: 64 << 10}.Hold(t, len(s), func() { token, err = parseToken(s) })
		if err != nil {
			if parts := strings.Split(s, "."); len(parts) >= 3 && len(parts[1]) > 8 &&
				strings.Contains(err.Error(), parts[1]) {
				t.Errorf("the refusal of %q repeats it: %v", s, err)
			}
			return
		}
		if token.ID == 0 || token.Attachment == 0 {
			t.Errorf("%q was read as %+v", s, token)
		}
		if again, err := parseToken(formatToken(token)); err != nil || again != token {
			t.Errorf("%q was read as %+v, and written and read again as %+v, %v", s, token, again, err)
		}
	})
}

// FuzzIDDecode: "id decode" shows its arguments, or names the argument that is no id. "id encode" makes the same ids
// from the fields that were shown.
func FuzzIDDecode(f *testing.F) {
	f.Add("0x0100000000010000", "table")
	f.Add("ff\n0xffffffffffffffff\n1", "json")
	f.Add("0", "json")
	f.Add("-1\n--\n-o", "xml")
	f.Fuzz(func(t *testing.T, arguments, output string) {
		words := strings.Split(arguments, "\n")
		code, out, errOut := runFuzzed(t, append([]string{"id", "decode", "-o", output, "--"}, words...)...)
		valid := output == "table" || output == "json"
		for _, w := range words {
			_, err := session.ParseID(w)
			valid = valid && err == nil
		}
		switch {
		case !valid:
			if code != exitUsage || errOut == "" || out != "" {
				t.Errorf("%q: exit code %d, %q, %q, want a refusal", words, code, out, errOut)
			}
			return
		case code != exitDone || errOut != "":
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
	ID      idText       `json:"id"`
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
		code, out, errOut := runFuzzed(t, "id", "encode", "-o", "json", "--node", strconv.Itoa(int(v.Node)),
			"--ms", strconv.FormatUint(v.MS, 10), "--counter", strconv.Itoa(int(v.Counter)))
		if !v.Node.Valid() {
			if code != exitUsage {
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
		code, out, errOut := runFuzzed(t, slices.Concat([]string{"id", "decode"}, flags, []string{"--", word})...)
		if code != exitDone {
			if code != exitUsage || errOut == "" || out != "" {
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
		code, made, errOut := runFuzzed(t, again...)
		if node, ok := shown[0]["node"].(json.Number); ok && (node == "0" || node == "255") {
			if code != exitUsage {
				t.Errorf("an id of node %s was made: %s", node, made)
			}
			return
		}
		if code != exitDone || made != out {
			t.Errorf("encode makes %s (%d, %s) of %s", made, code, errOut, out)
		}
	})
}

// tokenFromInput is the one argument about files that names none.
const tokenFromInput = "--token-file=-"

// FuzzArguments runs the program with any arguments, one on each line, after Ctrl-C. The program ends at once with one
// of its exit codes, and gives a reason unless the code is 0.
func FuzzArguments(f *testing.F) {
	for _, s := range []string{
		"id\nencode\n--node\n1\n--time\n2026-11-21T12:00:00Z", "id\nencode\n--node\n255\n--ms\n18446744073709551615",
		"session\nopen\n--label\na=b\n--label\na=c",
		"session\nshow\n0x1", "session\nclose\n" + tokenText, "session\ntouch\n" + tokenFromInput,
		"session\nls\n--owner\n255\n--min-age\n-1h", "session\nhold\n--timeout=0s",
		"cluster\nmembers\n-o\njson\n--endpoints\n,,:,[", "__complete\nsession\n", "version", "", "help\nid",
		"session\nhold\n--\n-x",
		"id\nnew\n--layout\nsnowflake\n--datacenter=1\n--worker=31\n--count=100000\n-o\njson",
		"id\nzxid\n--term=4294967296\n--index=1", "id\nzxid\n0x300000010",
		"id\nnew\n--layout=snowflake\n--policy=switch-worker\n--spares=1,1\n--datacenter=0\n--worker=0",
		"id\nencode\n--layout=zookeeper\n--server=256",
		"ping\n--count\n3\n--interval\n0s",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, arguments string) {
		args := slices.DeleteFunc(strings.Split(arguments, "\n"), func(arg string) bool {
			return strings.Contains(arg, "file") && arg != tokenFromInput // it would name a file of the machine
		})
		code, _, errOut := runFuzzed(t, args...)
		if code < exitDone || code > exitUnreachable || code != exitDone && errOut == "" {
			t.Errorf("%q: exit code %d, %q", args, code, errOut)
		}
	})
}

// runFuzzed runs the program with an ended context, and bounds its memory and time.
func runFuzzed(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	size := 0
	for _, arg := range args {
		size += len(arg)
	}
	var out, errOut bytes.Buffer
	// The table library measures and styles each cell: the line of a one-byte argument costs some thousand bytes.
	bound.Cost{PerByte: 32 << 10, Fixed: 2 << 20}.Hold(t, size, func() {
		code = run(ctx, args, strings.NewReader(tokenText), &out, &errOut)
	})
	return code, out.String(), errOut.String()
}
