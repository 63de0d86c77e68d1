package main

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"holdfast/session"
	"holdfast/test/fuzz/bound"
)

// FuzzParseToken: a text is a token or is refused without being repeated, for it is a secret; what was read is written in one
// form, which is read as the same.
func FuzzParseToken(f *testing.F) {
	for _, s := range []string{
		tokenText, " " + tokenText + "\n", "", "..", "1.00112233445566778899aabbccddeeff.1", "0x1.00112233445566778899AABBCCDDEEFF.18446744073709551615",
		"1.00112233445566778899aabbccddeef.1", "1.00112233445566778899aabbccddeeff.0", "1.00112233445566778899aabbccddeeff.1.1", strings.Repeat(".", 4096),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var token session.Token
		var err error
		bound.Cost{PerByte: 64, Fixed: 64 << 10}.Hold(t, len(s), func() { token, err = parseToken(s) })
		if err != nil {
			if parts := strings.Split(s, "."); len(parts) == 3 && len(parts[1]) > 8 && strings.Contains(err.Error(), parts[1]) {
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

// FuzzIDDecode: "id decode" shows what its arguments say or names the one that says nothing, and "id encode" makes the same
// ids of what was shown.
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
		var views []idView
		if err := json.Unmarshal([]byte(out), &views); err != nil || len(views) != len(words) {
			t.Fatalf("%q: %v, %d views: %s", words, err, len(views), out)
		}
		encodeAgain(t, words, views)
	})
}

// encodeAgain puts the ids that decode showed together, one by one.
func encodeAgain(t *testing.T, words []string, views []idView) {
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
		var made []idView
		if err := json.Unmarshal([]byte(out), &made); err != nil || len(made) != 1 || made[0] != v {
			t.Errorf("encode makes %s (%d, %s) of %+v", out, code, errOut, v)
		}
	}
}

// FuzzArguments gives the program any arguments, one a line, after its user has pressed Ctrl-C: it ends at once with one of
// its exit codes, and says why unless it is done.
func FuzzArguments(f *testing.F) {
	for _, s := range []string{
		"id\nencode\n--node\n1\n--time\n2026-11-21T12:00:00Z", "id\nencode\n--node\n255\n--ms\n18446744073709551615", "session\nopen\n--label\na=b\n--label\na=c",
		"session\nshow\n0x1", "session\nclose\n--token\n" + tokenText, "session\ntouch\n--token=-", "session\nls\n--owner\n255\n--min-age\n-1h", "session\nhold\n--timeout=0s",
		"cluster\nmembers\n-o\njson\n--endpoints\n,,:,[", "__complete\nsession\n", "--version", "", "help\nid", "session\nhold\n--\n-x",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, arguments string) {
		args := slices.DeleteFunc(strings.Split(arguments, "\n"), func(arg string) bool {
			return strings.Contains(arg, "file") // names of the machine's files
		})
		code, _, errOut := runFuzzed(t, args...)
		if code < exitDone || code > exitUnreachable || code != exitDone && errOut == "" {
			t.Errorf("%q: exit code %d, %q", args, code, errOut)
		}
	})
}

// runFuzzed runs the program with a context that has ended.
func runFuzzed(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	size := 0
	for _, arg := range args {
		size += len(arg)
	}
	var out, errOut bytes.Buffer
	// A line of a table is some thousand times an argument of one byte, each of whose cells is measured and styled.
	bound.Cost{PerByte: 32 << 10, Fixed: 2 << 20}.Hold(t, size, func() {
		code = run(ctx, args, strings.NewReader(tokenText), &out, &errOut)
	})
	return code, out.String(), errOut.String()
}
