package config

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// kind is what stands at a place of the file.
type kind string

const (
	nullKind   kind = "nothing"
	boolKind   kind = "true or false"
	intKind    kind = "a whole number"
	floatKind  kind = "a number"
	stringKind kind = "a text"
	mapKind    kind = "a mapping"
	listKind   kind = "a list"
)

// node is the file as a tree, aliases and merge keys resolved.
type node struct {
	kind    kind
	pos     position
	text    string  // scalars: as it is written
	value   any     // scalars: bool, int64, float64, string
	bare    bool    // a text without quotes
	entries []entry // mappings
	items   []*node // lists
}

// entry is one key of a mapping.
type entry struct {
	key   string
	pos   position // of the key
	value *node
}

// Bounds of a file. Aliases can make a small file large.
const (
	maxBytes = 1 << 20
	maxNodes = 100_000
	maxDepth = 50
)

// byteOrderMark is what some editors put first; it is no part of the YAML.
const byteOrderMark = "\ufeff"

// parseTree reads the one document of a file. It returns nil for an empty file
// and for one whose problem leaves no tree.
func parseTree(data []byte, ps *problems) *node {
	if len(data) > maxBytes {
		ps.add(position{1, 1}, "", fmt.Sprintf("the file is larger than %d bytes", maxBytes), "is it a configuration?")
		return nil
	}
	file, err := parser.ParseBytes(bytes.TrimPrefix(data, []byte(byteOrderMark)), 0, parser.AllowDuplicateMapKey())
	if err != nil {
		ps.add(errorPosition(err), "", "not valid YAML: "+errorMessage(err), "")
		return nil
	}
	var root *node
	for i, doc := range file.Docs {
		t := &treeBuilder{problems: ps, anchors: map[string]*node{}}
		n := t.build(doc.Body, nil)
		if i > 0 && n.kind != nullKind {
			ps.add(n.pos, "", "a second document", "a configuration is one document; delete the line ---")
			continue
		}
		if i == 0 {
			root = n
		}
	}
	return root
}

// errorMessage leaves out the excerpt of the file, which may show a secret.
func errorMessage(err error) string {
	if e, ok := errors.AsType[yaml.Error](err); ok {
		return e.GetMessage()
	}
	return "cannot be parsed"
}

func errorPosition(err error) position {
	if e, ok := errors.AsType[yaml.Error](err); ok && e.GetToken() != nil && e.GetToken().Position != nil {
		return position{e.GetToken().Position.Line, e.GetToken().Position.Column}
	}
	return position{1, 1}
}

// treeBuilder makes the tree of one document.
type treeBuilder struct {
	problems *problems
	anchors  map[string]*node
	nodes    int
	full     bool // a bound was reached and reported
}

func (t *treeBuilder) problem(pos position, p path, what, remedy string) {
	t.problems.add(pos, p.String(), what, remedy)
}

// build returns the tree of n; it is never nil.
func (t *treeBuilder) build(n ast.Node, p path) *node {
	out := &node{kind: nullKind, pos: nodePosition(n)}
	if !t.room(out.pos, p) {
		return out
	}
	switch n := n.(type) {
	case nil, *ast.NullNode:
	case *ast.MappingNode:
		t.mapping(out, n.Values, p)
	case *ast.MappingValueNode:
		t.mapping(out, []*ast.MappingValueNode{n}, p)
	case *ast.SequenceNode:
		out.kind = listKind
		for i, item := range n.Values {
			out.items = append(out.items, t.build(item, p.index(i)))
		}
	case *ast.AnchorNode:
		value := t.build(n.Value, p)
		t.anchors[nodeText(n.Name)] = value
		return value
	case *ast.AliasNode:
		return t.alias(n, out, p)
	case *ast.TagNode:
		t.problem(out.pos, p, "YAML tags are not supported", "delete "+n.Start.Value)
	default:
		t.scalar(out, n, p)
	}
	return out
}

// room counts nodes and depth against their bounds.
func (t *treeBuilder) room(pos position, p path) bool {
	t.nodes++
	if t.nodes <= maxNodes && len(p) <= maxDepth {
		return true
	}
	if !t.full {
		t.full = true
		t.problems.add(pos, "", "the file is nested or repeated too much", "")
	}
	return false
}

// alias returns the anchor's tree. An anchor stands only for what ended before
// the alias, so no tree contains itself.
func (t *treeBuilder) alias(n *ast.AliasNode, none *node, p path) *node {
	name := nodeText(n.Value)
	target, ok := t.anchors[name]
	if !ok {
		t.problem(none.pos, p, fmt.Sprintf("no anchor %q before this", name), "")
		return none
	}
	if !t.full {
		t.nodes += target.size(maxNodes)
	}
	if !t.room(none.pos, p) {
		return none
	}
	return target
}

// size counts the nodes of a tree, up to about limit.
func (n *node) size(limit int) int {
	count := 1
	for _, e := range n.entries {
		if count >= limit {
			return count
		}
		count += e.value.size(limit - count)
	}
	for _, item := range n.items {
		if count >= limit {
			return count
		}
		count += item.size(limit - count)
	}
	return count
}

// mapping fills out with the entries; a merge key adds those that are not there.
func (t *treeBuilder) mapping(out *node, values []*ast.MappingValueNode, p path) {
	out.kind = mapKind
	seen := map[string]position{}
	var merged []*node
	for _, v := range values {
		pos := nodePosition(v.Key)
		if v.Key.IsMergeKey() {
			merged = append(merged, t.build(v.Value, p))
			continue
		}
		key, ok := keyText(v.Key)
		if !ok {
			t.problem(pos, p, "a key must be a text", "")
			continue
		}
		child := p.child(key)
		if first, twice := seen[key]; twice {
			t.problem(pos, child, fmt.Sprintf("set twice, first at line %d", first.line), "delete one of the two")
			continue
		}
		seen[key] = pos
		out.entries = append(out.entries, entry{key, pos, t.build(v.Value, child)})
	}
	for _, m := range merged {
		t.merge(out, m, p)
	}
}

func (t *treeBuilder) merge(out, from *node, p path) {
	switch from.kind {
	case listKind:
		for _, item := range from.items {
			t.merge(out, item, p)
		}
	case mapKind:
		for _, e := range from.entries {
			if out.get(e.key) == nil {
				out.entries = append(out.entries, e)
			}
		}
	default:
		t.problem(from.pos, p, "a merge key (<<) takes a mapping", "")
	}
}

// get returns the value of a key, or nil.
func (n *node) get(key string) *node {
	for _, e := range n.entries {
		if e.key == key {
			return e.value
		}
	}
	return nil
}

func (t *treeBuilder) scalar(out *node, n ast.Node, p path) {
	switch n := n.(type) {
	case *ast.StringNode:
		out.kind, out.value, out.text, out.bare = stringKind, n.Value, n.Value, n.Token.Type == token.StringType
	case *ast.LiteralNode:
		out.kind, out.value, out.text = stringKind, n.Value.Value, n.Value.Value
	case *ast.BoolNode:
		out.kind, out.value, out.text = boolKind, n.Value, n.Token.Value
	case *ast.IntegerNode:
		t.integer(out, n, p)
	case *ast.FloatNode:
		out.kind, out.value, out.text = floatKind, n.Value, n.Token.Value
		if math.IsInf(n.Value, 0) || math.IsNaN(n.Value) {
			t.problem(out.pos, p, "not a finite number", "")
		}
	case *ast.InfinityNode, *ast.NanNode:
		t.problem(out.pos, p, "not a finite number", "")
	default:
		t.problem(out.pos, p, "cannot be read", "")
	}
}

func (t *treeBuilder) integer(out *node, n *ast.IntegerNode, p path) {
	out.kind, out.text = intKind, n.Token.Value
	switch v := n.Value.(type) {
	case int64:
		out.value = v
	case uint64:
		if v <= math.MaxInt64 {
			out.value = int64(v)
			return
		}
		out.value = int64(math.MaxInt64)
		t.problem(out.pos, p, "the number is too large", "")
	default:
		out.value = int64(0)
		t.problem(out.pos, p, "not a number", "")
	}
}

// keyText returns the text of a key, and false for one that is no scalar.
func keyText(n ast.MapKeyNode) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}

func nodeText(n ast.Node) string {
	if n == nil || n.GetToken() == nil {
		return ""
	}
	return n.GetToken().Value
}

// nodePosition is where a node begins; a mapping at its first key or its brace.
func nodePosition(n ast.Node) position {
	switch m := n.(type) {
	case nil:
		return position{1, 1}
	case *ast.MappingNode:
		if !m.IsFlowStyle && len(m.Values) > 0 {
			return nodePosition(m.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return nodePosition(m.Key)
	}
	tk := n.GetToken()
	if tk == nil || tk.Position == nil {
		return position{1, 1}
	}
	return position{tk.Position.Line, tk.Position.Column}
}
