// Command gendoc writes docs/metrics.md from the list of metrics in package app,
// which is also what they are made from.
//
// Run it with go generate ./internal/app; a test holds the page to its output.
package main

import (
	"fmt"
	"os"
)

// pageFile is the page, seen from where go generate runs: internal/app/.
const pageFile = "../../docs/metrics.md"

func main() {
	if err := os.WriteFile(pageFile, generate(), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "gendoc: error:", err)
		os.Exit(1)
	}
}
