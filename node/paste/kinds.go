package paste

// kinds are the kinds of text that busbar knows, in the order in which they are asked.
var kinds = []kind{
	topoKind, p2pKind, smiTableKind, smiListKind, nvlinkKind, smiQueryKind, smiCSVKind, smiFailsKind,
	lspciKind, lspciTreeKind, setpciKind, otherSetpciKind,
	procModulesKind, lsmodKind, modinfoKind, driverVersionKind, driverParametersKind,
	commandLineKind, grubKind, blsKind, grubEnvironmentKind,
	modprobeKind, modulesLoadKind, sysctlKind, limitsKind, procLimitsKind, ulimitKind, unitKind, osReleaseKind, mountsKind, markerKind,
	sysfsKind, pathsKind, hcaListKind, qosKind, dcbKind, portTableKind, mtuTableKind, briefKind, ipKind, ibdevKind, showGIDsKind, ibstatKind, ibstatusKind, devinfoKind, rdmaLinkKind, ethtoolKind, mlxlinkKind,
	ncclKind, ncclLogKind, ncclXMLKind, ncclTestsKind, kernelLogKind,
	fabricManagerKind, unitListKind, unitStatusKind, draKind, dpkgKind, rpmKind, lscpuKind, numactlKind, shellKind, scriptKind,
	recordingKind, reportKind,
}
