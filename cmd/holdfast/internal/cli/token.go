package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"holdfast/auth"
	"holdfast/cmd/internal/arg"
	"holdfast/session"
)

// TokenHelp is part of the help of every command that prints or takes a session token.
const TokenHelp = `A token is a secret: with it, anyone can take the session over or close it. Its form is
ID.CREDENTIAL.ATTACHMENT, followed by .local for a local session. No command takes a token as an
argument: other users of the machine could see it.`

// FormatToken returns the text of a token, as commands print it and users keep it.
func FormatToken(t session.Token) string { return t.Secret() }

// parseToken reads the text that FormatToken writes. Its errors do not repeat the token.
func parseToken(s string) (session.Token, error) {
	t, err := session.ParseToken(s)
	if err != nil {
		return session.Token{}, Usage("%w, as \"session open\" prints it", err)
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

// tokenAsID refuses a token in place of an id.
const tokenAsID = "the argument is a token, want a session id: the token's part before the first dot"

// TokenFlag is the flag that names the file of a session token.
type TokenFlag struct{ file string }

// Register adds the flag, and its help to the command's.
func (f *TokenFlag) Register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.file, "token-file", "",
		"file that holds the session's token, or the whole output of session open; - reads standard input")
	cmd.Long += "\n\n" + TokenHelp
}

// IsSet reports whether the user gave the flag.
func (f *TokenFlag) IsSet() bool { return f.file != "" }

// tokenBytes bounds the bytes that are read of a token's file. The output of "session keep-alive" may be longer: its
// token is at the beginning.
const tokenBytes = 4096

// Token reads the token.
func (f *TokenFlag) Token(ctx context.Context, stdin io.Reader) (session.Token, error) {
	switch f.file {
	case "":
		return session.Token{}, Usage("no token given: want --token-file")
	case "-":
	default:
		file, err := os.Open(f.file)
		if err != nil {
			return session.Token{}, Usage("--token-file: %w", err)
		}
		defer func() { _ = file.Close() }() // opened for reading only
		stdin = file
	}
	b, err := io.ReadAll(io.LimitReader(arg.Until(ctx, stdin), tokenBytes+1))
	switch {
	case err != nil && ctx.Err() != nil:
		return session.Token{}, fmt.Errorf("read the token: %w", err)
	case err != nil:
		return session.Token{}, Usage("--token-file: %w", err) // for example, FILE is a directory
	}
	text, cut := string(b), len(b) > tokenBytes
	if cut { // the last line may be half a token
		text = text[:strings.LastIndexByte(text[:tokenBytes], '\n')+1]
	}
	token, found := findToken(text)
	switch {
	case found:
		return parseToken(token)
	case cut:
		return session.Token{}, Usage("--token-file: more than %d bytes, and no token in a line of the first %[1]d: want "+
			"a token, or the output of session open", tokenBytes)
	default:
		return parseToken(text)
	}
}

// findToken finds the token in the output of "session open" or "session keep-alive", as a table or in JSON. Of JSON the
// first value counts: "session keep-alive" prints one per line.
func findToken(text string) (token string, found bool) {
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
