package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"holdfast/cmd/internal/arg"
	"holdfast/session"
)

// tokenHelp is said wherever a token is shown or taken.
const tokenHelp = `A token is a secret: whoever has it can take the session over or close it. It is written as
ID.CREDENTIAL.ATTACHMENT, with .local after it for a local session. Prefer --token-file, or --token - with standard input: other users of the machine can see
the arguments of a command.`

// formatToken is the text that commands print, and people keep.
func formatToken(t session.Token) string { return t.Secret() }

// parseToken reads what formatToken writes. Its errors do not repeat the token.
func parseToken(s string) (session.Token, error) {
	t, err := session.ParseToken(s)
	if err != nil {
		return session.Token{}, usage("%w; want it as session open prints it", err)
	}
	return t, nil
}

// tokenForm is what tokens look like: an id and a credential, of which a part may be missing. Nothing repeats the
// latter.
var tokenForm = regexp.MustCompile(`((?:0x)?[0-9a-fA-F]{1,16})\.[0-9a-fA-F]{16,}[0-9a-zA-Z.]*`)

func isToken(s string) bool { return tokenForm.MatchString(s) }

// withoutSecrets is a text in which a token may stand, without its credential.
func withoutSecrets(s string) string { return tokenForm.ReplaceAllString(s, "$1.(secret)") }

const tokenAsID = "that is a token: its session id is what stands before the first dot"

// noArgs is for commands that take no arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	switch {
	case !slices.ContainsFunc(args, isToken):
		return arg.None(cmd, args)
	case cmd.Flags().Lookup("token") != nil:
		return usage("%s; %q takes it whole, with --token-file or --token -", tokenAsID, cmd.CommandPath())
	default:
		return usage("%s; %q takes no arguments", tokenAsID, cmd.CommandPath())
	}
}

// tokenFlags are where a command gets its token from.
type tokenFlags struct{ text, file string }

func (f *tokenFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.text, "token", "", "the session's token, a secret; - reads it from standard input")
	cmd.Flags().StringVar(&f.file, "token-file", "",
		"file that holds the session's token, or what session open printed")
	cmd.MarkFlagsMutuallyExclusive("token", "token-file")
	cmd.Long += "\n\n" + tokenHelp
}

func (f *tokenFlags) given() bool { return f.text != "" || f.file != "" }

// tokenBytes bounds what is read of a token's file.
const tokenBytes = 4096

func (f *tokenFlags) token(stdin io.Reader) (session.Token, error) {
	switch {
	case f.file != "":
		file, err := os.Open(f.file)
		if err != nil {
			return session.Token{}, usage("--token-file: %w", err)
		}
		defer func() { _ = file.Close() }() // it was only read
		stdin = file
	case f.text == "":
		return session.Token{}, usage("want a token: --token or --token-file")
	case f.text != "-":
		return parseToken(f.text)
	}
	b, err := io.ReadAll(io.LimitReader(stdin, tokenBytes))
	switch {
	case err != nil && f.file != "":
		return session.Token{}, usage("--token-file: %w", err) // a directory, for one
	case err != nil:
		return session.Token{}, fmt.Errorf("read token from standard input: %w", err)
	}
	return parseToken(tokenIn(string(b)))
}

// tokenIn returns the token in a text: all of it, or what stands on the line of it where the text is what session open
// and hold print.
func tokenIn(text string) string {
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == "token" {
			return fields[1]
		}
	}
	return text
}
