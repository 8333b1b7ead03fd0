package nccllog

import (
	"strconv"
	"strings"
)

// variable reads what is in force:
//
//	NCCL_IB_TIMEOUT set by environment to 22.
//	NET/Plugin: Plugin name set by env to libnccl-net-x.so
//	Comm config minCTAs reset to NCCL_MIN_CTAS=4
//	Comm config Blocking set to 1
//	NET/OFI Setting NCCL_PROTO to "simple"
//	NET/OFI Running on P4d platform, Setting NCCL_TOPO_FILE environment variable to /opt/p4d.xml
func (p *Parser) variable(m message) bool {
	t := m.text
	v := Variable{Origin: FromEnvironment, Line: m.line}
	name, value, ok := strings.Cut(t, " set by environment to ")
	switch {
	case ok && isVariable(name):
		v.Name, v.Value = name, value
		if whole, dot := strings.CutSuffix(value, "."); dot && isInteger(whole) {
			v.Value = whole
		}
	case strings.HasPrefix(t, "Comm config "):
		if _, value, ok = strings.Cut(t, " reset to NCCL_"); ok {
			v.Name, v.Value, ok = strings.Cut("NCCL_"+value, "=")
			break
		}
		name, value, ok = strings.Cut(strings.TrimPrefix(t, "Comm config "), " set to ")
		v.Name, v.Value, v.Origin = name, value, FromProgram
		ok = ok && !strings.Contains(name, " ")
	default:
		v, ok = pluginVariable(t, v)
	}
	if !ok || len(v.Name) > 80 || v.Name == "" {
		return false
	}
	v.Name, v.Value, v.By = short(v.Name), short(v.Value), short(v.By)
	key := v
	key.Line = 0
	if !p.variables[key] && len(p.variables) < maxFew {
		p.variables[key] = true
		p.log.Variables = append(p.log.Variables, v)
	}
	return true
}

func pluginVariable(t string, v Variable) (Variable, bool) {
	if name, value, ok := strings.Cut(t, "lugin name set by env to "); ok {
		v.Name, v.Value = "NCCL_NET_PLUGIN", value
		switch {
		case strings.HasPrefix(name, "TUNER/"):
			v.Name = "NCCL_TUNER_PLUGIN"
		case strings.HasPrefix(name, "PROFILER/"):
			v.Name = "NCCL_PROFILER_PLUGIN"
		}
		return v, true
	}
	v.By, _, _ = strings.Cut(t, " ")
	if !strings.HasPrefix(v.By, "NET/") && !strings.HasPrefix(v.By, "TUNER/") {
		return v, false
	}
	_, rest, ok := strings.Cut(t, "etting ")
	if !ok {
		return v, false
	}
	name, value, ok := strings.Cut(rest, " ")
	value, _ = strings.CutPrefix(value, "environment variable ")
	value, to := strings.CutPrefix(value, "to ")
	v.Name, v.Value, v.Origin = name, strings.Trim(value, `"`), FromPlugin
	return v, ok && to && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == "" && strings.Contains(name, "_")
}

func isVariable(name string) bool {
	return (strings.HasPrefix(name, "NCCL_") || strings.HasPrefix(name, "RCCL_")) && !strings.ContainsAny(name, " =")
}

func isInteger(s string) bool {
	_, err := strconv.ParseInt(s, 10, 64)
	return err == nil
}

// network reads what a process found and chose.
func (p *Parser) network(m message) bool {
	t := m.text
	if name, ok := strings.CutPrefix(t, "Using network "); ok {
		if name == "" || len(name) > 64 || !m.whole {
			return true
		}
		i, seen := p.networks[name]
		if !seen {
			if len(p.networks) >= maxFew {
				return true
			}
			name = short(name)
			i = len(p.log.Networks)
			p.networks[name] = i
			p.log.Networks = append(p.log.Networks, Network{Name: name, Line: m.line})
		}
		p.log.Networks[i].Times++
		return true
	}
	switch {
	case t == "Connected NVLS tree":
		p.nvls(m, p.at(m), "tree")
		return true
	case strings.HasPrefix(t, "NVLS comm 0x"):
		p.nvls(m, p.at(m), "")
		return true
	}
	name, rest, ok := strings.Cut(t, " : ")
	name, isNet := strings.CutPrefix(name, "NET/")
	if !ok || !isNet || len(name) > 64 {
		return false
	}
	switch {
	case rest == "No device found.":
		p.log.NoHCA = p.log.NoHCA || name == IB
		return true
	case strings.HasPrefix(rest, "Using"):
		p.offered(name, rest)
		return true
	}
	return p.gpuDirect(m, name, rest)
}

// gpuDirect reads "GPU Direct RDMA Disabled for HCA 0 'mlx5_0' (no module)".
func (p *Parser) gpuDirect(m message, network, text string) bool {
	rest, ok := strings.CutPrefix(text, "GPU Direct RDMA ")
	if !ok {
		return false
	}
	state, rest, _ := strings.Cut(rest, " ")
	if !strings.HasPrefix(rest, "for HCA ") || state != "Enabled" && state != "Disabled" {
		return true // of a pair of GPU and HCA: a distance, seen with the subsystem GRAPH alone
	}
	_, rest, _ = strings.Cut(rest, "'")
	device, _, ok := strings.Cut(rest, "'")
	h := GPUDirectHint{Network: short(network), Device: short(device), Enabled: state == "Enabled", Line: m.line}
	key := h
	key.Line = 0
	if ok && !p.hints[key] && len(p.hints) < maxFew {
		p.hints[key] = true
		p.log.GPUDirect = append(p.log.GPUDirect, h)
	}
	return true
}

// offered reads "Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:192.0.2.1<0>".
func (p *Parser) offered(network, text string) {
	list, _, _ := strings.Cut(strings.TrimPrefix(text, "Using"), ";")
	for word := range strings.FieldsSeq(list) {
		index, name, ok := strings.Cut(strings.TrimPrefix(word, "["), "]")
		if _, digits := number(index); !ok || !digits || name == "" {
			continue
		}
		name, rest, _ := strings.Cut(name, ":")
		d := Device{Network: network, Name: name}
		if network == IB {
			_, layer, _ := strings.Cut(rest, "/")
			d.Layer, _, _ = strings.Cut(layer, ":")
		}
		d = Device{short(d.Network), short(d.Name), short(d.Layer)}
		if !p.devices[d] && len(p.devices) < maxFew {
			p.devices[d] = true
			p.log.Devices = append(p.log.Devices, d)
		}
	}
}

// trace reads what NCCL writes when a call of its own failed: "init.cc:1270 -> 2", with the thread or the errno behind it.
func (p *Parser) trace(m message, w *work) bool {
	where, rest, ok := strings.Cut(m.text, " -> ")
	file, line, colon := strings.Cut(where, ":")
	if _, digits := number(line); !ok || !colon || !digits || strings.ContainsAny(file, " ()") || !strings.Contains(file, ".") {
		return false
	}
	code, _, _ := strings.Cut(rest, " ")
	n, ok := number(code)
	if !ok || n == 0 || n == 7 { // success, in progress
		return true
	}
	if w.failure == nil {
		w.failure = &Failure{Host: m.host, PID: m.pid, Init: w.complete == 0 || w.started > w.complete, Where: short(where), Code: n, Warning: w.lastWarning, Line: m.line}
	}
	return true
}

// warn keeps a warning; of what is no WARN only what is known to matter.
func (p *Parser) warn(m message, warned bool) {
	id := recognise(m.text, warned)
	if id == "" && !warned {
		return
	}
	key := id
	text := short(m.text)
	if id == "" {
		key = text
	}
	i, seen := p.warnings[key]
	if !seen {
		if len(p.warnings) >= maxFew {
			return
		}
		i = len(p.log.Warnings)
		p.warnings[key] = i
		p.log.Warnings = append(p.log.Warnings, Warning{ID: id, Text: text, Host: m.host, Line: m.line})
	}
	p.log.Warnings[i].Times++
}
