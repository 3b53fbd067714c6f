package metrics

import (
	"fmt"
	"strings"
)

// Reference returns the reference of all metrics, in Markdown.
func Reference() string {
	var b strings.Builder
	b.WriteString(`# Metrics

A stand-in serves these at ` + "`/ollamoon/metrics`" + ` in the form of Prometheus, with the engine's API key where one is asked for. Each is there
from the start, with every value that its labels can have. This page is made from the code: ` + "`go test ./internal/metrics -update`" + `.

| metric | type | labels | what it says |
| --- | --- | --- | --- |
`)
	for _, d := range table {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", d.name, d.kind, d.labelTexts(), d.help)
	}
	b.WriteString(`
The hit rate of prompts is ` + "`rate(ollamoon_hit_tokens_total[5m]) / rate(ollamoon_lookup_tokens_total[5m])`" + `; what part of all prompts did not have to be
computed, ` + "`1 - sum(rate(ollamoon_prompt_tokens_total{source=\"computed\"}[5m])) / sum(rate(ollamoon_prompt_tokens_total[5m]))`" + `.
`)
	return b.String()
}

// labelTexts lists a definition's labels with their values.
func (d *definition) labelTexts() string {
	var texts []string
	for _, l := range d.labels {
		if l.values == nil {
			texts = append(texts, "`"+l.name+"`: a text")
			continue
		}
		texts = append(texts, "`"+l.name+"`: "+strings.Join(l.values, ", "))
	}
	return strings.Join(texts, "<br>")
}
