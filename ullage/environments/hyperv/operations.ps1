# What ullage asks of a Hyper-V host, for Windows PowerShell 5.1 and later. Always these bytes:
# what a plan says comes as data, in $request, and is never made a part of any code.
param($request)

$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'

function Get-Own($request) {
    Get-VM | Where-Object { $_.Name -ceq $request.name }
}

function Read-Facts($request) {
    $machine = Get-VMHost
    $system = Get-CimInstance -ClassName Win32_OperatingSystem
    $switches = @(Get-VMSwitch | ForEach-Object { $_.Name })
    $parent = $null
    if (Test-Path -LiteralPath $request.parent -PathType Leaf) {
        $disk = Get-VHD -Path $request.parent
        $parent = @{ format = "$($disk.VhdFormat)"; kind = "$($disk.VhdType)" }
    }
    @{
        system = $system.Caption
        version = $system.Version
        cpus = $machine.LogicalProcessorCount
        memory_bytes = $machine.MemoryCapacity
        switches = $switches
        parent = $parent
    }
}

function Read-State($request) {
    $own = @(Get-Own $request)
    if ($own.Count -eq 0) {
        return @{ state = 'Gone'; heartbeat = ''; addresses = @(); cpus = 0; memory_bytes = 0 }
    }
    $vm = $own[0]
    @{
        state = "$($vm.State)"
        heartbeat = "$($vm.Heartbeat)"
        addresses = @($vm.NetworkAdapters | ForEach-Object { $_.IPAddresses })
        cpus = $vm.ProcessorCount
        memory_bytes = $vm.MemoryStartup
    }
}

function New-Instance($request) {
    New-Item -ItemType Directory -Path $request.place | Out-Null
    New-VHD -Path $request.disk -ParentPath $request.parent -Differencing | Out-Null
    $vm = New-VM -Name $request.name -Generation $request.generation `
        -MemoryStartupBytes $request.memory_bytes -VHDPath $request.disk `
        -Path $request.place -SwitchName $request.switch
    Set-VM -VM $vm -Notes $request.notes -StaticMemory -AutomaticCheckpointsEnabled $false `
        -AutomaticStartAction Nothing -AutomaticStopAction TurnOff
    Set-VMProcessor -VM $vm -Count $request.cpus -Maximum $request.percent
    if ($request.secure_boot -eq 'Off') {
        Set-VMFirmware -VM $vm -EnableSecureBoot Off
    }
    if ($request.template -ne '') {
        Set-VMFirmware -VM $vm -EnableSecureBoot On -SecureBootTemplate $request.template
    }
    Start-VM -VM $vm
    Read-State $request
}

function Suspend-Instance($request) {
    foreach ($vm in @(Get-Own $request)) {
        Suspend-VM -VM $vm
    }
    Read-State $request
}

function Resume-Instance($request) {
    foreach ($vm in @(Get-Own $request)) {
        Resume-VM -VM $vm
    }
    Read-State $request
}

function Remove-Instance($request) {
    foreach ($vm in @(Get-Own $request)) {
        if ("$($vm.State)" -ne 'Off') {
            Stop-VM -VM $vm -TurnOff -Force
        }
        Remove-VM -VM $vm -Force
    }
    if (Test-Path -LiteralPath $request.place) {
        Remove-Item -LiteralPath $request.place -Recurse -Force
    }
    Read-Names $request
}

function Read-Names($request) {
    $names = @(Get-VM | Where-Object { $_.Name -clike $request.pattern } | ForEach-Object { $_.Name })
    $places = @()
    if (Test-Path -LiteralPath $request.folder) {
        $places = @(Get-ChildItem -LiteralPath $request.folder -Directory |
            Where-Object { $_.Name -clike $request.pattern } | ForEach-Object { $_.Name })
    }
    @{ names = @($names + $places) }
}

function Invoke-Operation($request) {
    switch ($request.operation) {
        'facts' { Read-Facts $request }
        'make' { New-Instance $request }
        'state' { Read-State $request }
        'suspend' { Suspend-Instance $request }
        'resume' { Resume-Instance $request }
        'remove' { Remove-Instance $request }
        'names' { Read-Names $request }
    }
}

try {
    Import-Module Hyper-V
    $answer = @{ result = Invoke-Operation $request }
}
catch {
    $answer = @{
        error = @{
            id = "$($_.FullyQualifiedErrorId)"
            category = "$($_.CategoryInfo.Category)"
            words = "$($_.Exception.Message)"
        }
    }
}
$json = ConvertTo-Json -InputObject $answer -Depth 6 -Compress
# Base64: whatever code page the console has, these are the bytes that arrive.
$text = [Convert]::ToBase64String([Text.Encoding]::UTF8.GetBytes($json))
[Console]::Out.WriteLine($request.mark + $text)
