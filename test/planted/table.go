package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// The table stands in README.md between these lines.
const (
	tableBegins = "<!-- The table is written by \"go run ./test/planted -write\". -->\n"
	tableEnds   = "<!-- The table ends here. -->\n"
)

// table returns the bugs as a table in Markdown.
func table(bugs []bug) string {
	var t strings.Builder
	t.WriteString("\n| bug | stands for | what it does | breaks | caught in CI by | and by |\n|---|---|---|---|---|---|\n")
	cell := strings.NewReplacer("|", `\|`)
	for _, b := range bugs {
		var also []string
		for i := range b.catchers[1:] {
			also = append(also, b.catchers[i+1].String())
		}
		fmt.Fprintf(&t, "| %s | %s | %s | %s | %s | %s |\n", b.name, cell.Replace(b.from), cell.Replace(b.what),
			cell.Replace(b.breaks), cell.Replace(b.catchers[0].String()), cell.Replace(strings.Join(also, "; ")))
	}
	t.WriteString("\n")
	return t.String()
}

var errNoTable = errors.New("the lines around the table are missing")

// withTable returns a text with the table of bugs in its place.
func withTable(text string, bugs []bug) (string, error) {
	before, rest, ok := strings.Cut(text, tableBegins)
	if !ok {
		return "", errNoTable
	}
	_, after, ok := strings.Cut(rest, tableEnds)
	if !ok {
		return "", errNoTable
	}
	return before + tableBegins + table(bugs) + tableEnds + after, nil
}

func writeTable(file string, bugs []bug) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	with, err := withTable(string(text), bugs)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, []byte(with), 0o600)
}
