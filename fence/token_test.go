package fence_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"holdfast/fence"
	"holdfast/test/fuzz/bound"
	"holdfast/tree"
)

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{
		"", ".", "1", "1.", ".1", "01.1", "1.01", "+1.1", "1.+1", "-1.1", " 1.1", "1.1 ", "1.1\n", "1.1.1", "1_0.1", "0x1.1",
		"1,1", "１.1", "1.65536", "140737488355328.0", "18446744073709551616.1", strings.Repeat("9", 1000) + ".1",
	} {
		got, err := fence.Parse(text)
		refused, ok := errors.AsType[*fence.TokenError](err)
		if got != 0 || !ok || refused.Text != text[:min(len(text), 64)] || !strings.Contains(err.Error(), "1024.3") {
			t.Errorf("%.70q is read as %v, %v", text, got, err)
		}
		if given := fence.Token(7); given.UnmarshalText([]byte(text)) == nil {
			t.Errorf("%.70q is unmarshalled as %v", text, given)
		}
	}
	if text, err := (fence.Max + 1).MarshalText(); err == nil {
		t.Errorf("a token above the bound is marshalled as %s", text)
	}
}

// TestTokensAreStamps: tokens have the text and the order of the tree's stamps.
func TestTokensAreStamps(t *testing.T) {
	stamp := rapid.Custom(func(t *rapid.T) tree.Stamp {
		index := rapid.OneOf(rapid.Uint64Range(0, 3), rapid.Uint64Range(0, tree.MaxIndex),
			rapid.Just[uint64](tree.MaxIndex)).Draw(t, "index")
		position := rapid.OneOf(rapid.IntRange(0, 3), rapid.IntRange(0, tree.MaxPosition)).Draw(t, "position")
		return tree.StampAt(index, position)
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := stamp.Draw(t, "a"), stamp.Draw(t, "b")
		token := fence.Token(a)
		if token.String() != a.String() {
			t.Fatalf("%d as a token is %v, as a stamp %v", a, token, a)
		}
		if read, err := fence.Parse(a.String()); err != nil || read != token {
			t.Fatalf("%v is read as %v, %v", a, read, err)
		}
		of := struct{ Token fence.Token }{token}
		text, err := json.Marshal(of)
		if want := `{"Token":"` + a.String() + `"}`; err != nil || string(text) != want {
			t.Fatalf("JSON %s, %v, want %s", text, err, want)
		}
		of.Token = 0
		if err := json.Unmarshal(text, &of); err != nil || of.Token != token {
			t.Fatalf("%s is read as %v, %v", text, of.Token, err)
		}
		if cmp.Compare(token, fence.Token(b)) != cmp.Compare(a, b) || int64(token) < 0 {
			t.Fatalf("%v and %v", token, b)
		}
	})
	if fence.Max != fence.Token(tree.StampAt(tree.MaxIndex, tree.MaxPosition)) {
		t.Errorf("the largest token is %v", fence.Max)
	}
}

// FuzzParse: Parse reads a text as a token exactly if it is the text that the token writes, and tree.ParseStamp reads
// the same.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"1024.3", "0.0", "0.1", "140737488355327.65535", "140737488355328.0", "1.65536", "01.1", "1.00", "1.", ".1", "1", "",
		"+1.1", "-1.1", "1.1.1", "1.1\n", "1_0.1", "１.1", "\xff.1",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var token fence.Token
		var err error
		bound.Cost{PerByte: 16, Fixed: 1 << 16}.Hold(t, len(text), func() { token, err = fence.Parse(text) })
		stamp, stampErr := tree.ParseStamp(text)
		switch {
		case err == nil && (token.String() != text || token > fence.Max):
			t.Errorf("%q is read as %v", text, token)
		case err == nil && (stampErr != nil || uint64(stamp) != uint64(token)):
			t.Errorf("%q is the token %v and the stamp %v, %v", text, token, stamp, stampErr)
		case err != nil && stampErr == nil && stamp.String() == text:
			t.Errorf("%q is a stamp: %v", text, err)
		case err != nil && len(err.Error()) > 400:
			t.Errorf("%d bytes make an error of %d", len(text), len(err.Error()))
		}
	})
}
