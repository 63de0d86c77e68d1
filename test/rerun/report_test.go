package main

import (
	"fmt"
	"io"
	"testing"
)

// The line of a test that timed out may come as output of another test, or of none.
func TestAMarkNamesItsTest(t *testing.T) {
	for name, of := range map[string]string{
		"of the test itself": `"Test":"TestLate",`, "of another test": `"Test":"TestJudge",`, "of no test": "",
	} {
		r := newReport(io.Discard, false)
		for _, e := range []string{
			`"Action":"run","Test":"TestLate"`, `"Action":"run","Test":"TestJudge"`,
			`"Action":"output",` + of + `"Output":"    a_test.go:7: TIMED OUT: TestLate/part: two holders: not within 1s\n"`,
			`"Action":"skip","Test":"TestLate"`, `"Action":"pass","Test":"TestJudge"`,
		} {
			if _, err := fmt.Fprintf(r, "{\"Package\":\"p\",%s}\n", e); err != nil {
				t.Fatal(err)
			}
		}
		if got := fmt.Sprint(r.timedOut()); got != "[p TestLate]" {
			t.Errorf("%s: %s timed out, want TestLate", name, got)
		}
	}
}
