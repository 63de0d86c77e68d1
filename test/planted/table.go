package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// The tables in README.md stand between these lines.
const (
	tableBegins = "<!-- The table is written by \"go run ./test/planted -write\". -->\n"
	tableEnds   = "<!-- The table ends here. -->\n"
)

// table returns the bugs as a table in Markdown.
func table(bugs []bug) string {
	var t strings.Builder
	t.WriteString(
		"\n| bug | stands for | what it does | breaks | caught in CI by | and by |\n|---|---|---|---|---|---|\n",
	)
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

// judged matches what a bug must break for the simulation to judge it.
var judged = regexp.MustCompile(`\b(I[1-8]|liveness|linearizability)\b`)

// unseen lists the bugs that the simulation ought to see and does not. The bugs that it sees prove its checker.
func unseen(bugs []bug) string {
	var rows, untried []string
	seen, all := 0, 0
	for _, b := range bugs {
		if !judged.MatchString(b.breaks) {
			continue
		}
		all++
		switch {
		case b.simulated():
			seen++
		case b.blind != "":
			tried := "not run"
			if b.unseen > 0 {
				tried = fmt.Sprintf("1 to %d", b.unseen)
			}
			rows = append(
				rows, fmt.Sprintf("| %s | %s | %s |\n", b.name, tried, strings.ReplaceAll(b.blind, "|", `\|`)),
			)
		default:
			untried = append(untried, b.name)
		}
	}
	return fmt.Sprintf("### What the simulation does not see\n\nOf %d bugs that break I1 to I8, liveness or "+
		"linearizability, it catches %d: "+
		"their rows above name the seeds. These %d it does not see:\n\n| bug | seeds | why not |\n|---|---|---|\n%s"+
		"\nNot tried on enough seeds yet, %d: %s.\n\n",
		all, seen, len(rows), strings.Join(rows, ""), len(untried), strings.Join(untried, ", "))
}

var errNoTable = errors.New("find the tables: the lines around them are missing")

// withTable returns a text with the tables of bugs in their places.
func withTable(text string, bugs []bug) (string, error) {
	before, rest, ok := strings.Cut(text, tableBegins)
	if !ok {
		return "", errNoTable
	}
	_, after, ok := strings.Cut(rest, tableEnds)
	if !ok {
		return "", errNoTable
	}
	return before + tableBegins + table(bugs) + unseen(bugs) + tableEnds + after, nil
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
