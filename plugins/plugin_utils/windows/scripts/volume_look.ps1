# storlab: volume_look
# The volume of a folder that was there before, and the file there that is read: the one that is named, else the biggest that a search sees. Reads only, so
# it runs in check mode, too.
[CmdletBinding(SupportsShouldProcess)]
param([string]$Folder, [string]$File, [int64]$LeastBytes, [int]$MostEntries, [int]$MostS)
$Ansible.Changed = $false

# Files of the system are its own, such as a page file, and a link leads to another place.
$elsewhere = [System.IO.FileAttributes]::ReparsePoint -bor [System.IO.FileAttributes]::System
$volume = Get-Volume -FilePath $Folder -ErrorAction SilentlyContinue
$best = $null
if ($File) {
    $best = Get-Item -LiteralPath $File -Force -ErrorAction SilentlyContinue
    if ($best -and ($best.PSIsContainer -or $best.Attributes -band $elsewhere)) { $best = $null }
}
else {
    $clock = [System.Diagnostics.Stopwatch]::StartNew()
    $left = $MostEntries
    $folders = New-Object -TypeName System.Collections.Queue
    $folders.Enqueue($Folder)
    while ($folders.Count) {
        # Not every folder may be read, and some go in the meantime.
        foreach ($entry in @(Get-ChildItem -LiteralPath $folders.Dequeue() -Force -ErrorAction SilentlyContinue)) {
            $left -= 1
            if ($left -lt 0 -or $clock.Elapsed.TotalSeconds -gt $MostS) {
                $folders.Clear()
                break
            }
            if ($entry.Attributes -band $elsewhere) { continue }
            if ($entry.PSIsContainer) { $folders.Enqueue($entry.FullName) }
            elseif ($entry.Length -ge $LeastBytes -and (-not $best -or $entry.Length -gt $best.Length)) { $best = $entry }
        }
    }
}
$Ansible.Result = @{
    volume = [string]$volume.UniqueId
    filesystem = [string]$volume.FileSystem
    label = [string]$volume.FileSystemLabel
    # As text: it has more digits than a number of JSON keeps everywhere.
    file = if ($best) { @{ path = $best.FullName; size_bytes = $best.Length; created = [string]$best.CreationTimeUtc.Ticks } } else { $null }
}
