package config

import (
	"fmt"
	"strings"
)

// Reference returns the table of settings as Markdown.
func Reference() string {
	var b strings.Builder
	b.WriteString("| setting | default | range | meaning |\n|---|---|---|---|\n")
	for _, s := range settings() {
		fallback := "-"
		if s.fallback() != "" {
			fallback = "`" + s.fallback() + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.name, fallback, s.limit, s.help)
	}
	return b.String()
}
