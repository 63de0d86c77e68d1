package secure

import (
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"strings"
	"time"
)

// Describe describes a certificate in lines: its owner, its issuer, its use and its validity.
func Describe(c *x509.Certificate) string {
	line := func(what, text string) string { return fmt.Sprintf("  %-11s %s", what, text) }
	names := c.DNSNames
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	whose := owner(c)
	uses := []string{}
	for _, u := range c.ExtKeyUsage {
		switch u { //nolint:exhaustive // other uses do not matter here
		case x509.ExtKeyUsageServerAuth:
			uses = append(uses, "servers")
		case x509.ExtKeyUsageClientAuth:
			uses = append(uses, "clients")
		}
	}
	if c.IsCA {
		whose, uses = "a CA", []string{"signing certificates"}
	}
	lines := []string{
		line("of", whose), line("subject", SubjectOf(c)), line("signed by", c.Issuer.String()),
		line("for", strings.Join(uses, " and ")),
		line("valid", c.NotBefore.UTC().Format(time.RFC3339)+" to "+c.NotAfter.UTC().Format(time.RFC3339)),
	}
	if len(names) > 0 {
		lines = append(lines, line("hosts", strings.Join(names, ", ")))
	}
	return strings.Join(append(lines, line("sha256", fmt.Sprintf("%x", sha256.Sum256(c.Raw)))), "\n")
}
