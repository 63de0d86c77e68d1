package secure_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"testing"

	"holdfast/transport/secure"
)

// attribute is one of a subject, with the tag of its value.
type attribute struct {
	kind, value string
	tag         int
}

// subject returns a name in bytes.
func subject(t *testing.T, parts ...[]attribute) []byte {
	t.Helper()
	type typeAndValue struct {
		Type  asn1.ObjectIdentifier
		Value asn1.RawValue
	}
	type partSET []typeAndValue
	var all []partSET
	kinds := map[string]asn1.ObjectIdentifier{
		"CN": {2, 5, 4, 3}, "SERIAL": {2, 5, 4, 5}, "C": {2, 5, 4, 6}, "L": {2, 5, 4, 7}, "ST": {2, 5, 4, 8},
		"STREET": {2, 5, 4, 9}, "O": {2, 5, 4, 10}, "OU": {2, 5, 4, 11}, "MAIL": {1, 2, 840, 113549, 1, 9, 1},
		"UID": {0, 9, 2342, 19200300, 100, 1, 1}, "DC": {0, 9, 2342, 19200300, 100, 1, 25},
	}
	for _, part := range parts {
		var one partSET
		for _, a := range part {
			one = append(one, typeAndValue{kinds[a.kind], asn1.RawValue{Tag: a.tag, Bytes: []byte(a.value)}})
		}
		all = append(all, one)
	}
	der, err := asn1.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// TestSubjectsAreWrittenAsJavaWritesThem: access lists for the certificates of ZooKeeper's clients name them so. What
// is wanted is what X500Principal.getName of Java 17 says of the same bytes.
func TestSubjectsAreWrittenAsJavaWritesThem(t *testing.T) {
	const utf8, printable, ia5, numeric = asn1.TagUTF8String, asn1.TagPrintableString, asn1.TagIA5String,
		asn1.TagNumericString
	one := func(kind, value string, tag int) []attribute { return []attribute{{kind, value, tag}} }
	for _, tt := range []struct {
		want  string
		parts [][]attribute
	}{
		{"", nil},
		{"CN=web", [][]attribute{one("CN", "web", utf8)}},
		{"CN=web,OU=ops,O=Example,L=Munich,ST=Bavaria,C=DE", [][]attribute{
			one("C", "DE", printable), one("ST", "Bavaria", utf8), one("L", "Munich", utf8), one("O", "Example", utf8),
			one("OU", "ops", utf8), one("CN", "web", utf8),
		}},
		{"C=DE,CN=web,O=Example", [][]attribute{
			one("O", "Example", utf8), one("CN", "web", utf8), one("C", "DE", printable),
		}},
		{"CN=web,OU=b,OU=a,DC=example,DC=org", [][]attribute{
			one("DC", "org", ia5), one("DC", "example", ia5), one("OU", "a", utf8), one("OU", "b", utf8),
			one("CN", "web", utf8),
		}},
		{"CN=web+UID=joe,STREET=1 Way", [][]attribute{
			one("STREET", "1 Way", utf8), {{"UID", "joe", utf8}, {"CN", "web", utf8}},
		}},
		{"1.2.840.113549.1.9.1=#160e6d65406578616d706c652e6f7267,2.5.4.5=#13023137,CN=web", [][]attribute{
			one("CN", "web", utf8), one("SERIAL", "17", printable), one("MAIL", "me@example.org", ia5),
		}},
		{`CN=a\=b,O=Ex\, \"Inc\"\; \#1\+\<2\>\\`, [][]attribute{
			one("O", `Ex, "Inc"; #1+<2>\`, utf8), one("CN", "a=b", utf8),
		}},
		{`CN=\ \ J` + "ü" + `r gen\ ,OU=\ ,O=`, [][]attribute{
			one("O", "", utf8), one("OU", " ", utf8), one("CN", "  Jür gen ", utf8),
		}},
		{"OU=a\\00b,CN=#12023137", [][]attribute{one("CN", "17", numeric), one("OU", "a\x00b", utf8)}},
	} {
		der := subject(t, tt.parts...)
		if got := secure.SubjectOf(&x509.Certificate{RawSubject: der}); got != tt.want {
			t.Errorf("%x:\n%q, want\n%q", der, got, tt.want)
		}
	}
	made := &x509.Certificate{Subject: pkix.Name{CommonName: "web"}}
	if got := secure.SubjectOf(made); got != "CN=web" {
		t.Errorf("of a certificate that was not read: %q", got)
	}
}
