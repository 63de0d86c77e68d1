package session

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// localWord ends the text of a local session's token, whose attachment is not from the log (L5 local attachments).
const localWord = "local"

// Secret returns the token as text for [ParseToken]: ID.CREDENTIAL.ATTACHMENT with the credential in hexadecimal,
// followed by .local for a local session. A program that has this text can take the session over or close it. Package
// fmt does not show a token's credential. Encoders that read fields, such as encoding/json and the handlers of
// structured logs, do write the credential: log the ID instead of the token.
func (t Token) Secret() string {
	s := fmt.Sprintf("%v.%s.%d", t.ID, hex.EncodeToString(t.Credential[:]), t.Attachment)
	if t.Local {
		s += "." + localWord
	}
	return s
}

// ParseToken parses the text of [Token.Secret], also with white space around it. The error is a [FieldError], and does
// not repeat the text, which may be a secret.
func ParseToken(s string) (Token, error) {
	invalid := func(limit string) (Token, error) { return Token{}, &FieldError{Field: "token", Limit: limit} }
	parts := strings.Split(strings.TrimSpace(s), ".")
	local := len(parts) == 4 && parts[3] == localWord
	if len(parts) != 3 && !local {
		return invalid("of the form ID.CREDENTIAL.ATTACHMENT or ID.CREDENTIAL.ATTACHMENT." + localWord)
	}
	id, err := ParseID(parts[0])
	if err != nil {
		return invalid("must begin with an id in hexadecimal that is not zero, before the first dot")
	}
	credential, err := hex.DecodeString(parts[1])
	if err != nil || len(credential) != len(Credential{}) {
		const digits = 2 * len(Credential{})
		return invalid(fmt.Sprintf("must have a credential of %d hexadecimal digits between its dots", digits))
	}
	attachment, err := strconv.ParseUint(parts[2], 10, 64)
	if err != nil || attachment == 0 {
		return invalid("must have an attachment, a number above 0, after its second dot")
	}
	return Token{ID: id, Credential: Credential(credential), Attachment: attachment, Local: local}, nil
}
