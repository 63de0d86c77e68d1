package secure

import (
	"cmp"
	"crypto/x509"
	"encoding/asn1"
	"fmt"
	"slices"
	"strings"
)

// SubjectOf returns the subject of a certificate in the form of access lists: the form of RFC 2253 that Java uses, and
// therefore ZooKeeper. Its parts are in the order of the certificate, the last one first.
//
// [pkix.Name.String] uses another order, joins the parts of a kind, and has names for other kinds. With that form, a
// list for a client's certificate at a ZooKeeper server would not match here.
func SubjectOf(c *x509.Certificate) string {
	var subject []partSET
	if rest, err := asn1.Unmarshal(c.RawSubject, &subject); err != nil || len(rest) > 0 {
		return c.Subject.String() // of a certificate that was made, not parsed
	}
	parts := make([]string, len(subject))
	for i, part := range subject {
		attributes := make([]string, len(part))
		for j, a := range part {
			attributes[j] = a.String()
		}
		parts[i] = strings.Join(attributes, "+")
	}
	slices.Reverse(parts)
	return strings.Join(parts, ",")
}

// partSET is a part of a name. Its own name ends in SET for package asn1.
type partSET []attribute

type attribute struct {
	Type  asn1.ObjectIdentifier
	Value asn1.RawValue
}

// keywords are the kinds of attributes that RFC 2253 has names for.
//
//nolint:gochecknoglobals // a table
var keywords = map[string]string{
	"2.5.4.3": "CN", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.9": "STREET", "2.5.4.10": "O",
	"2.5.4.11": "OU", "0.9.2342.19200300.100.1.1": "UID", "0.9.2342.19200300.100.1.25": "DC",
}

// texts are the kinds of values that are written as text.
//
//nolint:gochecknoglobals // a table
var texts = []int{
	asn1.TagUTF8String, asn1.TagPrintableString, asn1.TagT61String, asn1.TagIA5String, asn1.TagGeneralString,
	asn1.TagBMPString, tagUniversalString,
}

// tagUniversalString is missing in package asn1.
const tagUniversalString = 28

// String returns the attribute as KIND=VALUE, or with the encoded bytes of the value if RFC 2253 has no other form.
func (a attribute) String() string {
	kind, known := keywords[a.Type.String()]
	if !known || !slices.Contains(texts, a.Value.Tag) {
		return fmt.Sprintf("%s=#%x", cmp.Or(kind, a.Type.String()), a.Value.FullBytes)
	}
	text := string([]rune(string(a.Value.Bytes))) // text that is not UTF-8 is in no access list
	inner := strings.TrimRight(text, " \r")
	trailing := text[len(inner):]
	inner = strings.TrimLeft(inner, " \r")
	leading := text[:len(text)-len(trailing)-len(inner)]
	return kind + "=" + spaces.Replace(leading) + special.Replace(inner) + spaces.Replace(trailing)
}

// special are the characters to escape with a backslash, spaces those to escape at the ends of a value.
//
//nolint:gochecknoglobals // tables
var (
	special = strings.NewReplacer(",", `\,`, "=", `\=`, "+", `\+`, "<", `\<`, ">", `\>`, "#", `\#`, ";", `\;`,
		`"`, `\"`, `\`, `\\`, "\x00", `\00`)
	spaces = strings.NewReplacer(" ", `\ `, "\r", "\\\r")
)
