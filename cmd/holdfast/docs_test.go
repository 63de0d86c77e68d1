package main

import (
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"holdfast/cmd/holdfast/internal/cli"
)

// docs/cli.md names each command, and names no command that the program does not have.
func TestTheDocumentNamesEachCommand(t *testing.T) {
	b, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	env := cli.NewEnv(strings.NewReader(""), io.Discard, io.Discard)
	program := root(env)
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		path := strings.TrimPrefix(cmd.CommandPath(), "holdfast ")
		if !cmd.HasSubCommands() && !regexp.MustCompile("`(holdfast )?"+path+`[\s`+"`]").MatchString(page) {
			t.Errorf("docs/cli.md does not name %q: add its row", cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(program)
	for _, m := range regexp.MustCompile("`holdfast ([^`]*)`").FindAllStringSubmatch(page, -1) {
		words := strings.Fields(m[1])
		if len(words) == 0 || !regexp.MustCompile(`^[a-z]`).MatchString(words[0]) || words[0] == "completion" {
			continue
		}
		found, rest, err := program.Find(words)
		if err != nil || found == program || found.Annotations != nil && len(rest) > 0 {
			t.Errorf("docs/cli.md names `holdfast %s`, which is no command", m[1])
		}
	}
}
