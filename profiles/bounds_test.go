package profiles_test

import (
	"flag"
	"strconv"
	"strings"
	"testing"
)

var large = flag.Bool("large", false, "measure profiles of the largest size")

// largest is how many bytes the profiles have that largeProfiles gives.
func largest() int {
	if *large {
		return 1 << 20
	}
	return 1 << 16 / scale
}

// piece is format with the number of the piece as %[1]d and that before it as %[2]d.
func piece(format string, i int) string {
	return strings.ReplaceAll(strings.ReplaceAll(format, "%[1]d", strconv.Itoa(i+1)), "%[2]d", strconv.Itoa(i))
}

// numbered has n pieces.
func numbered(n int, format string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(piece(format, i))
	}
	return b.String()
}

// fill has as many pieces as the largest profile.
func fill(head, format, tail string) string {
	var b strings.Builder
	b.WriteString(head)
	for i := 0; ; i++ {
		p := piece(format, i)
		if b.Len()+len(p)+len(tail) > largest() {
			break
		}
		b.WriteString(p)
	}
	return b.String() + tail
}

// largeProfiles are large in every way that could take time that is not linear.
func largeProfiles() map[string]string {
	const most = 4000 / scale
	long, name := strings.Repeat("x", largest()/2), strings.Repeat("x", 50)
	return map[string]string{
		"locals":              fill("locals {\n", "  a%[1]d = 1 # %[2]d\n", "}\n"),
		"chained locals":      fill("locals {\n  a0 = 1\n", "  a%[1]d = local.a%[2]d\n", "}\n"),
		"most locals":         "locals {\n" + numbered(most, "  a%[1]d = 1 # %[2]d\n") + "}\nnccl {}\n",
		"most chained locals": "locals {\n  a0 = 1\n" + numbered(most, "  a%[1]d = [local.a%[2]d][0] == 1 ? 1 : 2\n") + "}\nnccl {}\n",
		"knotted locals":      fill("locals {\n  a0 = local.b\n"+numbered(1000/scale, "  a%[1]d = local.a%[2]d\n")+"  b = [", "local.a%[1]d, ", "]\n}\n"),
		"all refer to all":    "locals {\n" + numbered(200, "  a%[1]d = ["+strings.TrimSuffix(numbered(200, "local.a%[1]d, "), ", ")+"] # %[2]d\n") + "}\n",
		"variables":           fill("", "variable \"a%[1]d\" {\n  default = %[2]d\n}\n", ""),
		"most variables":      numbered(most, "variable \"a%[1]d\" {\n  type = number\n  default = %[2]d\n  validation {\n    condition = var.a%[1]d >= 0\n    error_message = \"x\"\n  }\n}\n") + "nccl {}\n",
		"unknown variables":   fill("profile {\n  variables = {\n", "    a%[1]d = %[2]d\n", "  }\n}\n"),
		"unknown variable":    fill(numbered(2000/scale, "variable \"a%[1]d\" {\n  default = %[2]d\n}\n")+"locals {\n  x = [", "var.b%[1]d, ", "]\n}\n"),
		"unknown long names":  fill(numbered(1000/scale, "variable \""+name+"%[1]d\" {}\n")+"locals {\n  x = [", "var."+name+"x%[1]d, ", "]\n}\n"),
		"selectors":           fill("", "selector \"a%[1]d\" {\n  nics = node.nics # %[2]d\n}\n", ""),
		"most selectors":      numbered(most, "selector \"a%[1]d\" {\n  nics = node.nics # %[2]d\n}\n") + "nccl {}\n",
		"chained selectors":   "selector \"b0\" {\n  nics = node.nics\n}\n" + numbered(most-1, "selector \"b%[1]d\" {\n  nics = [for n in selector.b%[2]d : n if !n.protected]\n}\n") + "nccl {}\n",
		"blocks":              fill("", "service \"a%[1]d\" {} # %[2]d\n", ""),
		"most blocks":         numbered(most, "kernel_module \"a%[1]d\" {\n  state = \"loaded\"\n  options = { a = \"%[2]d\" }\n}\n"),
		"wrong blocks":        numbered(most, "kernel_module \"a%[1]d\" {\n  state = \"laoded\"\n  options = { a = %[2]d }\n}\n"),
		"unknown blocks":      fill("", "nope%[1]d {}\n", ""),
		"unknown near blocks": fill("", "servic \"%[1]d\" {}\n", ""),
		"duplicate blocks":    fill("", "nccl {} # %[1]d %[2]d\n", ""),
		"blocks in a block":   fill("nccl {\n", "  a%[1]d {}\n", "}\n"),
		"arguments":           fill("nccl {\n", "  a%[1]d = %[2]d\n", "}\n"),
		"waivers":             fill("nccl {\n", "  waive {} # %[1]d\n", "}\n"),
		"duplicate keys":      fill("nccl {\n  settings = {\n", "    a = 1 # %[1]d\n", "  }\n}\n"),
		"keys":                fill("nccl {\n  settings = {\n", "    a%[1]d = %[2]d\n", "  }\n}\n"),
		"wrong keys":          fill("kernel_module \"a\" {\n  options = {\n", "    a%[1]d = %[2]d\n", "  }\n}\n"),
		"computed keys":       fill("nccl {\n  settings = {\n", "    (\"a${%[1]d}\") = %[2]d\n", "  }\n}\n"),
		"object keys":         fill("locals {\n  o = {\n", "    a%[1]d = %[2]d\n", "  }\n  p = tomap(local.o)\n  q = [for k, v in local.o : k]\n}\nnccl {}\n"),
		"unlike keys":         fill("locals {\n  o = {\n", "    a%[1]d = %[2]d\n    b%[1]d = \"x\"\n", "  }\n  p = tomap(local.o)\n}\nnccl {}\n"),
		"object as argument":  fill("locals {\n  o = {\n", "    a%[1]d = %[2]d\n", "  }\n}\nroce \"a\" {\n  nics = []\n  lossless = local.o\n}\n"),
		"object type":         "variable \"a\" {\n  type = object({" + numbered(20_000/scale, "a%[1]d = number\n") + "})\n  default = {" + numbered(20_000/scale, "b%[1]d = 1\n") + "}\n}\n",
		"optional attributes": fill("variable \"a\" {\n  type = list(object({ a = optional(string, \"x\"), b = optional(any, 1) }))\n  default = [", "{}, ", "]\n}\nnccl {}\n"),
		"list":                fill("locals {\n  a = [", "%[1]d, ", "]\n}\nnccl {}\n"),
		"list of references":  fill("locals {\n  l = ["+numbered(50_000/scale, "1, ")+"]\n  a = [", "local.l[0], ", "]\n}\nnccl {}\n"),
		"list of objects":     fill("locals {\n  a = [", "{ a = %[1]d, b = \"x\" }, ", "]\n  b = [for x in local.a : x.c]\n}\nnccl {}\n"),
		"list of mistakes":    fill("locals {\n  a = [", "nope, ", "]\n}\n"),
		"list of types":       fill("roce \"a\" {\n  nics = [", "{ address = %[1]d, port = 1 }, ", "]\n}\n"),
		"set":                 fill("kernel_module \"a\" {\n  for_each = toset([", "\"a%[1]d\", ", "])\n}\n"),
		"unlike set":          fill("locals {\n  a = toset([", "\"a%[1]d\", %[2]d, ", "])\n}\nnccl {}\n"),
		"most of each":        "kernel_module \"a\" {\n  for_each = toset([" + numbered(1024, "\"a%[1]d\", ") + "])\n  state = each.key\n}\n",
		"for_each of all":     numbered(most, "kernel_module \"a%[1]d\" {\n  for_each = toset([for i in range(1000) : \"k${i}\"])\n}\n"),
		"distinct":            fill("locals {\n  a = distinct(split(\",\", \"", "%[1]d,", "\"))\n}\nnccl {}\n"),
		"many distinct":       fill("locals {\n  l = [for i in range(1000) : i]\n  a = [", "distinct(local.l), ", "]\n}\nnccl {}\n"),
		"many sets":           fill("locals {\n  l = ["+numbered(64, "1, \"%[1]d\", ")+"]\n  a = [", "toset(local.l), ", "]\n}\nnccl {}\n"),
		"many maps":           fill("locals {\n  l = {"+numbered(60, "a%[1]d = 1, b%[1]d = \"x\", ")+"}\n  a = [", "tomap(local.l), ", "]\n}\nnccl {}\n"),
		"concat":              fill("locals {\n  a = concat([for i in range(1000) : [i]]...)\n  b = concat(", "[%[1]d], ", "[])\n}\nnccl {}\n"),
		"setunion":            fill("locals {\n  b = setunion(", "[%[1]d], ", "[])\n}\nnccl {}\n"),
		"coalesce":            fill("locals {\n  b = coalesce(", "%[1]d, ", "1)\n}\nnccl {}\n"),
		"merge":               fill("locals {\n  b = merge(", "{ a = %[1]d }, ", "{})\n}\nnccl {}\n"),
		"conditional":         fill("locals {\n  a = node.virtual ? [] : [", "%[1]d, ", "]\n}\nnccl {}\n"),
		"unlike conditional":  fill("locals {\n  a = node.virtual ? { a = 1 } : {", "a%[1]d = 1, b%[1]d = \"x\", ", "}\n}\nnccl {}\n"),
		"nested lists":        fill("locals {\n  a = tolist([", "[%[1]d], [1, \"%[2]d\"], ", "])\n}\nnccl {}\n"),
		"deep list":           fill("locals {\n  a = tolist("+strings.Repeat("[", 240)+numbered(100, "[[1]], "), "%[1]d, ", strings.Repeat("]", 240)+")\n}\nnccl {}\n"),
		"deep typed":          fill("roce \"a\" {\n  nics = "+strings.Repeat("[", 240), "%[1]d, ", strings.Repeat("]", 240)+"\n}\n"),
		"long key":            fill("nccl {\n  settings = { \""+long+"\" = [", "0.5, ", "] }\n}\n"),
		"long key of a map":   fill("kernel_module \"a\" {\n  options = { \""+long+"\" = [", "1, ", "] }\n}\n"),
		"long key of types":   fill("variable \"a\" {\n  type = map(list(string))\n  default = { \""+long+"\" = [", "1, ", "] }\n}\n"),
		"long name":           fill("locals {\n  "+long+" = [", "nope, ", "]\n}\n"),
		"long label":          fill("service \""+long+"\" {\n", "  a%[1]d = 1\n", "}\n"),
		"long type":           fill("", long+" \"%[1]d\" {}\n", ""),
		"loops":               fill("locals {\n  a = "+numbered(80, "[for x%[1]d in [1] : ")+"[", "x1, ", "]"+strings.Repeat("]", 80)+"\n}\nnccl {}\n"),
		"splats":              fill("locals {\n  l = [for i in range(1000) : { a = i }]\n  a = [", "local.l[*].a, ", "]\n}\nnccl {}\n"),
		"node splats":         fill("locals {\n  a = [", "node.nics[*].rdma, ", "]\n}\nnccl {}\n"),
		"template":            fill("locals {\n  a = \"", "${\"%[1]d\"} \\n % $ ", "\"\n}\nnccl {}\n"),
		"templates":           fill("locals {\n  a = [", "\"${node.arch}-${1}\", ", "]\n}\nnccl {}\n"),
		"heredoc":             fill("locals {\n  a = <<-X\n", "    x %[1]d %[2]d\n", "    X\n}\nnccl {}\n"),
		"string":              "locals {\n  a = \"" + strings.Repeat("x", largest()-40) + "\"\n}\nnccl {}\n",
		"comments":            fill("nccl {}\n", "# %[1]d %[2]d\n", ""),
		"comment":             "nccl {}\n#" + strings.Repeat("x", largest()-20),
		"identifier":          strings.Repeat("x", largest()-20) + " {}\n",
		"blank":               "nccl {}\n" + strings.Repeat("\n", largest()-20),
		"lines of blanks":     "nccl {}\n" + strings.Repeat(" ", largest()-20),
		"junk":                fill("", "}{ \"a ${ %[1]d\n", ""),
		"syntax":              fill("", "a = = %[1]d\n", ""),
		"dependencies":        fill("service \"a\" {\n  depends_on = [", "nccl, ", "]\n}\nnccl {}\n"),
		"wrong dependencies":  fill(numbered(2000/scale, "service \"b%[1]d\" {}\n")+"service \"a\" {\n  depends_on = [", "service.c%[1]d, ", "]\n}\n"),
		"instances depend":    fill("kernel_module \"a\" {\n  for_each = toset([for i in range(1000) : \"k${i}\"])\n  depends_on = [", "service.b[\"k%[1]d\"], ", "]\n}\nservice \"b\" {\n  for_each = toset([for i in range(1000) : \"k${i}\"])\n}\n"),
		"all depend":          "kernel_module \"a\" {\n  for_each = toset([for i in range(1024) : \"k${i}\"])\n}\n" + numbered(3000/scale, "service \"a%[1]d\" {\n  depends_on = [kernel_module.a]\n}\n"),
		"knotted blocks":      numbered(300/scale, "service \"a%[1]d\" {\n  depends_on = ["+strings.TrimSuffix(numbered(200, "service.a%[1]d, "), ", ")+"]\n}\n"),
		"chained blocks":      "service \"c0\" {}\n" + numbered(most, "service \"c%[1]d\" {\n  depends_on = [service.c%[2]d]\n}\n"),
		"extends":             fill("profile {\n  extends = [", "\"nope%[1]d\", ", "]\n}\n"),
		"optional":            fill("nccl {\n  optional = [", "\"%[1]d\", ", "]\n}\n"),
		"unary":               fill("locals {\n  a = [", "!true, -%[1]d, ", "]\n}\nnccl {}\n"),
		"numbers":             fill("locals {\n  a = [", "1e999, ", "]\n}\nnccl {}\n"),
		"products":            fill("locals {\n  n = 1e999\n  a = [", "local.n * local.n, ", "]\n}\nnccl {}\n"),
		"regular expressions": fill("locals {\n  a = [", "regexall(\"(a|b)*\", \"ab%[1]d\"), ", "]\n}\nnccl {}\n"),
		"try":                 fill("locals {\n  a = [", "try(node.nics[%[1]d].rdma, \"\"), ", "]\n}\nnccl {}\n"),
	}
}

// What is said of a large profile, valid or not, stays readable; that each of them comes to
// an end is the other half of the test. BenchmarkLargeProfiles measures.
func TestLargeProfiles(t *testing.T) {
	for name, src := range largeProfiles() {
		t.Run(name, func(t *testing.T) {
			p, diags := load(src)
			if p != nil {
				p.Evaluate(hgx())
			}
			if out := text(t, diags, 80, false); len(diags) > 101 || len(out) > 1<<18 {
				t.Errorf("%d diagnostics of %d bytes", len(diags), len(out))
			}
		})
	}
}

// With -large the profiles have the size of the largest that is read.
func BenchmarkLargeProfiles(b *testing.B) {
	for name, src := range largeProfiles() {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if p, _ := load(src); p != nil {
					p.Evaluate(hgx())
				}
			}
		})
	}
}
