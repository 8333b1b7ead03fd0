package paste

// kinds are the kinds of text that busbar knows, in the order in which they are asked.
var kinds = []kind{
	topoKind, p2pKind, smiTableKind, smiListKind, nvlinkKind, smiQueryKind, smiCSVKind, smiFailsKind,
	lspciKind, lspciTreeKind, setpciKind,
	procModulesKind, lsmodKind, modinfoKind, driverVersionKind,
	commandLineKind, grubKind, blsKind, grubEnvironmentKind,
	modprobeKind, modulesLoadKind, sysctlKind, limitsKind, procLimitsKind, unitKind, osReleaseKind, mountsKind, markerKind,
	sysfsKind, pathsKind, hcaListKind, qosKind, dcbKind, portTableKind, mtuTableKind, briefKind, ipKind, ibdevKind, showGIDsKind, ibstatKind, devinfoKind,
	ncclKind, ncclLogKind, ncclXMLKind, ncclTestsKind, kernelLogKind,
	fabricManagerKind, unitListKind, draKind, packagesKind, lscpuKind, shellKind,
	recordingKind, reportKind,
}
