package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"holdfast/auth"
	"holdfast/cmd/internal/arg"
	"holdfast/session"
)

// tokenHelp is part of the help of every command that prints or takes a token.
const tokenHelp = `A token is a secret: with it, anyone can take the session over or close it. Its form is
ID.CREDENTIAL.ATTACHMENT, followed by .local for a local session. No command takes a token as an
argument: other users of the machine could see it.`

// formatToken returns the text of a token, as commands print it and users keep it.
func formatToken(t session.Token) string { return t.Secret() }

// parseToken reads the text that formatToken writes. Its errors do not repeat the token.
func parseToken(s string) (session.Token, error) {
	t, err := session.ParseToken(s)
	if err != nil {
		return session.Token{}, usage("%w, as \"session open\" prints it", err)
	}
	return t, nil
}

// tokenForm matches text that looks like a token: an id and at least half of a credential. No output may repeat the
// credential.
var tokenForm = regexp.MustCompile(`((?:0x)?[0-9a-fA-F]{1,16})\.[0-9a-fA-F]{16,}[0-9a-zA-Z.]*`)

func isToken(s string) bool { return tokenForm.MatchString(s) }

// withoutSecrets returns s with the credentials of all tokens in it replaced.
func withoutSecrets(s string) string {
	return auth.WithoutTokens(tokenForm.ReplaceAllString(s, "$1.(secret)"))
}

// tokenAsID refuses a token in place of an id. It does not repeat the token.
const tokenAsID = "the argument is a token, want a session id: the token's part before the first dot"

// noArgs checks the arguments of commands that take none. It does not repeat a token.
func noArgs(cmd *cobra.Command, args []string) error {
	switch {
	case !slices.ContainsFunc(args, isToken):
		return arg.None(cmd, args)
	case cmd.Flags().Lookup("token-file") != nil:
		return usage("%q takes a token with --token-file, not as an argument", cmd.CommandPath())
	default:
		return usage("%q takes no arguments, not a token", cmd.CommandPath())
	}
}

// tokenFlag is the flag that says where a command reads its token.
type tokenFlag struct{ file string }

func (f *tokenFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.file, "token-file", "",
		"file that holds the session's token, or the whole output of session open; - reads standard input")
	cmd.Long += "\n\n" + tokenHelp
}

func (f *tokenFlag) given() bool { return f.file != "" }

// tokenBytes bounds the bytes that are read of a token's file. The output of "session hold" may be longer: its token is
// at the beginning.
const tokenBytes = 4096

func (f *tokenFlag) token(ctx context.Context, stdin io.Reader) (session.Token, error) {
	switch f.file {
	case "":
		return session.Token{}, usage("no token given: want --token-file")
	case "-":
	default:
		file, err := os.Open(f.file)
		if err != nil {
			return session.Token{}, usage("--token-file: %w", err)
		}
		defer func() { _ = file.Close() }() // it is open for reading only
		stdin = file
	}
	b, err := io.ReadAll(io.LimitReader(arg.Until(ctx, stdin), tokenBytes+1))
	switch {
	case err != nil && ctx.Err() != nil:
		return session.Token{}, fmt.Errorf("read the token: %w", err)
	case err != nil:
		return session.Token{}, usage("--token-file: %w", err) // for example, FILE is a directory
	}
	text, cut := string(b), len(b) > tokenBytes
	if cut { // the last line may be half a token
		text = text[:strings.LastIndexByte(text[:tokenBytes], '\n')+1]
	}
	token, found := tokenIn(text)
	switch {
	case found:
		return parseToken(token)
	case cut:
		return session.Token{}, usage("--token-file: more than %d bytes, and no token in a line of the first %[1]d: want "+
			"a token, or the output of session open", tokenBytes)
	default:
		return parseToken(text)
	}
}

// tokenIn finds the token in the output of "session open" or "session hold", as a table or in JSON. Of JSON the first
// value counts: "session hold" prints one per line.
func tokenIn(text string) (token string, found bool) {
	var held struct {
		Token string `json:"token"`
	}
	if err := json.NewDecoder(strings.NewReader(text)).Decode(&held); err == nil && held.Token != "" {
		return held.Token, true
	}
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == "token" {
			return fields[1], true
		}
	}
	return "", false
}
