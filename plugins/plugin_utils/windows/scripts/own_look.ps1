# storlab: own_look
# The volume of a folder that was there before, and in it the folder that the testbed made: its names, its stamp, and the size of the file that is measured. Reads
# only, so it runs in check mode, too.
[CmdletBinding(SupportsShouldProcess)]
param([string]$Folder, [string]$Own, [string]$Stamp, [string]$File)
$Ansible.Changed = $false

$volume = Get-Volume -FilePath $Folder -ErrorAction SilentlyContinue
$place = Get-Item -LiteralPath $Own -Force -ErrorAction SilentlyContinue
$linked = [System.IO.FileAttributes]::ReparsePoint
$own = $null
if ($place) {
    $plain = $place.PSIsContainer -and -not ($place.Attributes -band $linked)
    $entries = @(if ($plain) { Get-ChildItem -LiteralPath $Own -Force })
    $measured = $entries | Where-Object -FilterScript { $_.Name -eq $File -and -not $_.PSIsContainer -and -not ($_.Attributes -band $linked) }
    $stamped = $entries | Where-Object -FilterScript { $_.Name -eq $Stamp -and -not $_.PSIsContainer -and -not ($_.Attributes -band $linked) }
    # A stamp is some hundred bytes long.
    $short = $stamped -and $stamped.Length -le 4096
    $own = @{
        plain = [bool]$plain
        names = @($entries | ForEach-Object -Process { $_.Name })
        stamp = if ($short) { [System.IO.File]::ReadAllText($stamped.FullName) } else { '' }
        size_bytes = if ($measured) { $measured.Length } else { $null }
    }
}
$Ansible.Result = @{
    volume = [string]$volume.UniqueId
    filesystem = [string]$volume.FileSystem
    size_bytes = if ($volume) { [int64]$volume.Size } else { [int64]0 }
    free_bytes = if ($volume) { [int64]$volume.SizeRemaining } else { [int64]0 }
    own = $own
}
