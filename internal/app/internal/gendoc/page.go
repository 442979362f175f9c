package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"strings"

	"nightshift/internal/app"
)

//go:embed intro.txt
var intro string

//go:embed fleet.txt
var fleet string

//go:embed outro.txt
var outro string

// generate returns the page.
func generate() []byte {
	var p bytes.Buffer
	p.WriteString(intro)
	table(&p, app.EachWorker)
	p.WriteString(fleet)
	table(&p, app.KeeperOnly)
	p.WriteString(outro)
	return p.Bytes()
}

// table writes the metrics of one kind of process.
func table(p *bytes.Buffer, by app.Exporter) {
	p.WriteString("\n| metric | type | labels | unit | exported by | meaning |\n|---|---|---|---|---|---|\n")
	for _, m := range app.MetricList() {
		if m.By != by {
			continue
		}
		labels := ""
		if len(m.Labels) > 0 {
			labels = "`" + strings.Join(m.Labels, "`, `") + "`"
		}
		fmt.Fprintf(p, "| `%s` | %s | %s | %s | %s | %s |\n", m.Name, m.Type, labels, m.Unit, m.By, meaning(m))
	}
}

// meaning is what the metric's help says, but for what the heading says already.
func meaning(m app.Metric) string {
	help := strings.TrimSuffix(m.Help, " From the keeper only.")
	return strings.TrimSpace(help + " " + m.More)
}
