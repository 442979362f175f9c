package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// referenceCommand prints the program's part of docs/cli.md.
func referenceCommand(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "reference", Short: "print the reference of this program as Markdown", Hidden: true, Args: Args,
		RunE: func(c *cobra.Command, _ []string) error {
			Reference(e.Out, c.Root())
			return nil
		},
	}
}

// Reference writes the reference of a program and its commands as Markdown.
func Reference(w io.Writer, root *cobra.Command) {
	fmt.Fprintf(w, "## `%s`\n\n", root.Name())
	fmt.Fprintf(w, "%s\n\n", strings.TrimSpace(root.Long))
	fmt.Fprint(w, "Every command takes these flags:\n\n")
	flagList(w, root.PersistentFlags())
	commandReferences(w, root)
}

func commandReferences(w io.Writer, parent *cobra.Command) {
	for _, c := range parent.Commands() {
		if c.IsAvailableCommand() && c.Name() != "help" && c.Name() != "completion" {
			commandReference(w, c)
			commandReferences(w, c)
		}
	}
}

func commandReference(w io.Writer, c *cobra.Command) {
	fmt.Fprintf(w, "### `%s`\n\n", c.CommandPath())
	fmt.Fprintf(w, "```\n%s\n```\n\n", useLine(c))
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	fmt.Fprintf(w, "%s\n\n", strings.TrimSpace(text))
	if c.HasAvailableLocalFlags() {
		flagList(w, c.LocalFlags())
	}
}

func flagList(w io.Writer, set *pflag.FlagSet) {
	fmt.Fprint(w, "| flag | does |\n|---|---|\n")
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" || f.Name == "version" {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if value != "" {
			name += " " + value
		}
		fmt.Fprintf(w, "| `%s` | %s%s |\n", name, strings.ReplaceAll(usage, "|", `\|`), defaultOf(f))
	})
	fmt.Fprintln(w)
}

func defaultOf(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "false", "[]", "0", "0s":
		return ""
	}
	return fmt.Sprintf(" (default `%s`)", f.DefValue)
}
